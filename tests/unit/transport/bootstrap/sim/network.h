// Hosts, their processes' sockets, and what is between: a kernel's TCP as a program sees it.
//
// Bytes come in order, in pieces of any size, after a while; a lost one is sent again, so it is
// late. Where a path is cut nothing comes until it heals. A closed socket that still has input, or
// gets some, answers by a reset, which may overtake what was sent before.
#ifndef SK_TESTS_UNIT_TRANSPORT_BOOTSTRAP_SIM_NETWORK_H_
#define SK_TESTS_UNIT_TRANSPORT_BOOTSTRAP_SIM_NETWORK_H_

#include <netinet/in.h>
#include <poll.h>

#include <deque>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/transport/bootstrap/sim/fibers.h"

namespace sk::sim {

constexpr int64_t kUs = 1'000, kMs = 1'000'000, kS = 1'000'000'000;

struct Weather {
  int64_t delay_least_ns = 20 * kUs, delay_most_ns = 200 * kUs;
  uint32_t lost_of_1000 = 0;
  size_t room_bytes = 1 << 16;  // Of each direction, from send() to recv().
  size_t piece_bytes_most = 1500;
  int backlog_most = 4096;      // As net.core.somaxconn.
  uint32_t dawdle_of_1000 = 0;  // How often a process loses the processor at a send.
  int64_t dawdle_most_ns = 0;
};

// IPv4, in the host's order of bytes. Of the wildcard address 0.
struct Place {
  uint32_t address = 0;
  uint16_t port = 0;
  auto operator<=>(const Place&) const = default;
};

struct Socket {
  enum class State { kNew, kListens, kConnects, kStands, kRefused, kEvent };
  int process = -1;
  int host = -1;
  int family = 0;
  State state = State::kNew;
  bool open = true;  // Its process has it, or its listener's queue.
  bool bound = false;
  Place local, remote;
  std::string name;  // Of a socket of its host alone.
  // Of a listener.
  std::deque<int> queue;
  size_t queue_most = 0;
  // Of a connection.
  int peer = -1;
  bool dialed = false;  // By this side, and nothing said yet.
  std::string in;
  bool in_ended = false;
  bool reset = false;
  int error = 0;  // Told once.
  bool out_ended = false;
  size_t under_way = 0;  // Bytes that were sent and not read yet.
  // What is to happen at the other end, in order: when, and what.
  std::deque<std::pair<int64_t, std::function<void()>>> out;
  uint64_t count = 0;  // Of an event.
};

struct Process {
  int host = 0;
  size_t fiber = 0;
  bool alive = true;
  std::set<int> open;
  size_t open_most = SIZE_MAX;
  int64_t dies_at_send = INT64_MAX;  // Counts down.
  std::function<void()> died;
  int hasty = 0;       // Calls of poll() that had no need to wait, in a row: time stands still.
  bool spins = false;  // Too many.
};

class Network {
 public:
  Network(Fibers& fibers, uint64_t seed, const Weather& weather, size_t hosts);
  ~Network();
  static Network* current();  // Of the fiber that runs; null outside of fibers.

  Fibers& fibers() { return fibers_; }
  uint64_t draw(uint64_t below) { return random_() % below; }
  uint64_t draw() { return random_(); }
  int64_t now_ns() const { return fibers_.now_ns(); }

  // As the running fiber sees it: for one that is killed all time is up, so it leaves every loop.
  int64_t clock_ns();

  // A process on `host`: its fiber runs `body`.
  int start(int host, int64_t when_ns, std::function<void()> body);
  bool anybody_spins() const;
  Process& process(int number) { return processes_[size_t(number)]; }
  int self() const;  // The running fiber's process.
  void kill(int process);
  void stop(int process, int64_t until_ns);
  // All its events are rung: what another thread of it would have written.
  void ring(int process);

  static uint32_t address_of(int host) { return 0x0a000001u + uint32_t(host); }
  // Nothing passes from one to the other.
  void cut(int from, int to);
  void heal(int from, int to);
  bool is_cut(int from, int to) const { return cut_[size_t(from)][size_t(to)]; }
  // What a name stands for, from `from_ns` on; numbers stand for themselves.
  struct Name {
    std::vector<uint32_t> addresses;
    int64_t from_ns = 0;
  };
  std::map<std::string, Name> names;
  // What was said first on connections, as somebody overhears it: up to kOverheardMost.
  std::vector<std::string> overheard;

  // Calls of the running fiber's process, as Linux answers them: -1 with errno.
  int socket(int family, int type);
  int bind(int fd, const sockaddr_in& address);
  int bind_any6(int fd, uint16_t port);
  // Of its host alone: a name that is nowhere in the file system.
  int bind_name(int fd, const std::string& name);
  int connect_name(int fd, const std::string& name);
  int listen(int fd, int backlog);
  int accept(int fd);
  int connect(int fd, const sockaddr_in& address);
  // `may_die`: not in a destructor.
  ssize_t send(int fd, const void* bytes, size_t count, bool may_die = true);
  ssize_t receive(int fd, void* room, size_t count);
  int shut(int fd);
  int close(int fd);
  int poll(pollfd* entries, size_t count, int timeout_ms);
  int event();
  bool refused(int fd) { return at(fd - kFirst).state == Socket::State::kRefused; }
  Socket* find(int fd);  // Null with errno: not the process's.

  bool owns(int fd) const { return fd >= kFirst && size_t(fd - kFirst) < sockets_.size(); }
  static constexpr int kFirst = 1 << 20;
  static constexpr size_t kOverheardMost = 64;
  static constexpr int kHastyMost = 5'000;

 private:
  Socket& at(int id) { return sockets_[size_t(id)]; }
  int add(int host, int process);
  short ready(int fd);
  int64_t delay();
  int64_t arrival(bool dials);
  // `what` happens at the other end behind all that this one sent before.
  void carry(int id, std::function<void()> what);
  void deliver(int id);
  void dial(int id, int times);
  void knock(int id);
  void enqueue(int listener, int id);
  int listener_at(int host, Place place);
  int owner_of(int host, const std::string& name);
  void bring(int id, std::string bytes);
  void end_output(int id);
  void send_reset(int id);
  void get_reset(int id);
  void let_go(int id);
  void wake(int id);

  Fibers& fibers_;
  std::mt19937_64 random_;
  const Weather weather_;
  std::deque<Socket> sockets_;
  std::deque<Process> processes_;
  std::map<size_t, int> process_of_fiber_;
  std::vector<std::vector<bool>> cut_;
  std::vector<std::vector<int64_t>> cut_since_ns_;
  std::vector<int> listeners_;
  std::map<std::pair<int, std::string>, int> owners_;  // Of names.
  uint16_t next_port_ = 40'000;
  int64_t past_ns_ = 0;  // How often somebody who is killed has asked for the time, in seconds.
};

}  // namespace sk::sim

#endif  // SK_TESTS_UNIT_TRANSPORT_BOOTSTRAP_SIM_NETWORK_H_
