// How pairs of ranks of different hosts come to a connection each, step by step; who steps, and
// waits in between, is of the rooms above: the meeting, and what connects later.
//
// A rank dials all of a peer's addresses in turn and again, and takes who knocks; of the
// connections over which the other has proven itself the lower rank picks the first. Nothing here
// waits.
#ifndef SK_TRANSPORT_TCP_PAIRING_H_
#define SK_TRANSPORT_TCP_PAIRING_H_

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/tcp/greeting.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/tcp.h"

namespace sk::tcp {

inline constexpr int64_t kMs = 1'000'000;

// A descriptor that an epoll watches: not any more once this goes, which is before it is closed,
// for a child that is about to call exec() may still have it open.
struct Watched {
  Watched(int of_epoll, int of_fd, uint32_t of_events)
      : epoll(of_epoll), fd(of_fd), events(of_events) {}
  ~Watched();
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
  const int epoll, fd;
  uint32_t events;
};

struct PairingInput {
  uint32_t rank = 0;
  uint32_t world_size = 1;
  const std::vector<std::vector<Address>>& addresses;  // By rank.
  const std::vector<SocketPtr>& listeners;             // The own ones.
  MeetingKey key;
  const TcpConfig& config;
  std::vector<int> named;    // For sentences: ranks as the launcher counts them.
  size_t dials_max = 128;    // At once: each takes a descriptor.
  size_t accepts_max = 256;  // In a step, of each listener.
  // So many more than the ranks that are still missing, of whom no more are expected at once.
  size_t strangers_max = 256, expected_max = SIZE_MAX;
};

class Pairing {
 public:
  struct Connection {
    SocketPtr dialing;  // Until it stands.
    std::unique_ptr<Greeting> greeting;
    uint32_t peer = UINT32_MAX;  // Of a dial.
    std::string where;
    int64_t until_ns = 0;
    bool ready = true;
    bool over = false;
    uint64_t number = 0;               // From 1 on; of no other one.
    std::unique_ptr<Watched> watched;  // By who steps; goes first.
    int fd() const { return dialing ? dialing->fd() : greeting->pipe().fd(); }
    bool dials() const { return peer != UINT32_MAX; }
    bool wants_room() const { return dialing || greeting->wants_room(); }
    // The peer may have chosen it: it stays.
    bool is_stranger() const { return !dials() && !is_proven(); }
    bool is_proven() const { return greeting && greeting->state() != Greeting::State::kUnderWay; }
  };
  struct Pair {
    uint32_t rank = 0;
    std::unique_ptr<stream::Pipe> pipe;
    std::string where;
    size_t next_address = 0;
    int64_t next_dial_ns = INT64_MAX;  // Not dialled before.
    int64_t until_ns = INT64_MAX;      // Nor from then on.
    bool met = false;                  // It has its connection.
    bool dials = false;                // A dial is under way.
    int64_t first_dial_ns = 0;         // 0: none yet.
    int64_t answered_ns = 0;           // When an address last took a dial; 0: none has.
    std::vector<std::string> tried;    // By address, what came of the last dial,
    std::vector<bool> refused;         // and whether nobody listens there.
    int64_t refused_since_ns = 0;      // At none of them; 0: not so.
    size_t refusals = 0;               // Since then.
    int64_t turned_away_since_ns = 0;  // Whoever listens there knows no such rank; 0: not so.
    int64_t no_room_since_ns = 0;      // There is no descriptor for a dial; 0: there is.
    std::string tried_text() const;
  };

  explicit Pairing(const PairingInput& input);

  Pair& add(uint32_t rank);  // Before the first step.
  std::vector<Pair>& pairs() { return pairs_; }
  Pair* pair_of(uint32_t rank) { return at_[rank] < 0 ? nullptr : &pairs_[size_t(at_[rank])]; }
  std::list<Connection>& connections() { return connections_; }
  const std::list<Connection>& connections() const { return connections_; }

  // A step: dials what is due, takes who knocks, goes on with what is ready or late, with at most
  // `most` of them. True where a pair has met.
  Status dial_some();
  void accept_some();
  bool go_on(size_t most = SIZE_MAX);

  void drop_dials_of(Pair& pair);
  void drop_strangers();  // All that have proven nothing.

  // The last sentence about one that could not prove itself; why there was no descriptor since
  // this was last asked.
  const Status& stranger() const { return stranger_; }
  const Status& no_room() const { return no_room_; }
  Status take_no_room() { return std::exchange(no_room_, {}); }

 private:
  Status dial(Pair& pair);
  Connection connection_to(uint32_t peer, std::string where, int64_t until_ns);
  Status greet(Connection& connection, SocketPtr socket);
  Status go_on(Connection& connection);
  void end(Connection& connection, const Status& why);
  void adopt(Connection& connection);
  void note(Pair& pair, size_t address, std::string text, bool refused);

  const PairingInput in_;
  std::vector<Pair> pairs_;
  std::vector<int32_t> at_;  // By rank.
  size_t unmet_ = 0, next_pair_ = 0;
  uint64_t numbers_ = 0;
  std::list<Connection> connections_;
  Status stranger_, no_room_;
};

}  // namespace sk::tcp

#endif  // SK_TRANSPORT_TCP_PAIRING_H_
