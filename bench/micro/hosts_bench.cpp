// Sessions over TCP against a plain socket, on the loopback: a round trip of 8 bytes, and a stream
// of puts; the same two threads, in turn. One line of JSON for each figure.
//
//   hosts_bench [ROUNDS]
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "tests/support/apart.h"
#include "tests/support/mem_bootstrap.h"

namespace sk {
namespace {

constexpr int kTrips = 2'000;
constexpr uint64_t kPutBytes = 1 << 20;
constexpr int kPuts = 128;

int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

[[noreturn]] void give_up(const std::string& why) {
  fprintf(stderr, "hosts_bench: %s\n", why.c_str());
  exit(1);
}

// What both threads do at once; how long it took the first.
int64_t both(const std::function<void(uint32_t)>& body) {
  std::atomic<int> there{0};
  int64_t took = 0;
  const auto one = [&](uint32_t rank) {
    ++there;
    while (there < 2) continue;
    const int64_t begin = now_ns();
    body(rank);
    if (rank == 0) took = now_ns() - begin;
  };
  std::thread other([&] { one(1); });
  one(0);
  other.join();
  return took;
}

// Two sockets that are connected.
class Plain {
 public:
  Plain() {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof(at);
    if (bind(listener, reinterpret_cast<sockaddr*>(&at), bytes) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, reinterpret_cast<sockaddr*>(&at), &bytes) != 0)
      give_up("no socket to listen");
    ends_[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(ends_[0], reinterpret_cast<sockaddr*>(&at), bytes) != 0) give_up("no connection");
    ends_[1] = accept(listener, nullptr, nullptr);
    close(listener);
    const int one = 1;
    for (const int end : ends_) setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  }
  ~Plain() {
    for (const int end : ends_) close(end);
  }
  void send_all(uint32_t rank, const std::byte* from, uint64_t bytes) {
    while (bytes > 0) {
      const ssize_t sent = send(ends_[rank], from, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent > 0) from += sent, bytes -= uint64_t(sent);
    }
  }
  void receive_all(uint32_t rank, std::byte* to, uint64_t bytes) {
    while (bytes > 0) {
      const ssize_t came = recv(ends_[rank], to, bytes, MSG_DONTWAIT);
      if (came > 0) to += came, bytes -= uint64_t(came);
    }
  }

 private:
  int ends_[2];
};

class Ours {
 public:
  explicit Ours(bool tls) : meeting_(testing_support::make_meeting()) {
    SegmentLayout layout;
    layout.world_size = 2;
    layout.heap_bytes_max = kPutBytes;
    both([&](uint32_t rank) {
      testing_support::MemBootstrap bootstrap(*meeting_, int(rank), 2);
      auto made = testing_support::connect_apart(bootstrap, layout, 1, 60'000'000'000, tls);
      if (!made.ok()) give_up(made.status().message());
      ends_[rank] = std::move(made).value();
    });
    place_ = layout.heap_offset();
    for (const auto& end : ends_)
      if (!end->commit(place_, kPutBytes).ok()) give_up("no memory");
  }
  void put(uint32_t rank, const std::byte* from, uint64_t bytes) {
    Session& session = ends_[rank]->session(1 - rank);
    for (;;) {
      Result<Sent> sent = session.put({place_}, from, bytes, 0, 1);
      if (!sent.ok()) give_up(sent.status().message());
      if (*sent == Sent::kLater)
        while (session.sent() < session.taken()) ends_[rank]->progress();
      if (*sent != Sent::kAgain) return;
      ends_[rank]->progress();
    }
  }
  void wait(uint32_t rank) {
    const uint64_t due = ++seen_[rank * 16];
    while (ends_[rank]->signals()[0].value.load(std::memory_order_acquire) < due)
      ends_[rank]->progress();
  }

 private:
  testing_support::MeetingPtr meeting_;
  std::unique_ptr<Endpoint> ends_[2];
  uint64_t place_ = 0;
  uint64_t seen_[32] = {};  // Apart, for two threads.
};

void say(const char* who, const char* what, int64_t ns, uint64_t bytes, int count) {
  if (bytes == 8) {
    printf("{\"who\": \"%s\", \"case\": \"%s\", \"us\": %.3f}\n", who, what,
           double(ns) / 1e3 / count);
  } else {
    printf("{\"who\": \"%s\", \"case\": \"%s\", \"gb_per_s\": %.3f}\n", who, what,
           double(bytes) * count / double(ns));
  }
}

void measure_ours(Ours& ours, const char* name, const std::vector<std::byte>& source) {
  const int64_t trips = both([&](uint32_t rank) {
    for (int i = 0; i < kTrips; ++i) {
      if (rank == 0) ours.put(0, source.data(), 8);
      ours.wait(rank);
      if (rank == 1) ours.put(1, source.data(), 8);
    }
  });
  say(name, "round trip of 8 bytes", trips, 8, kTrips);
  const int64_t stream = both([&](uint32_t rank) {
    for (int i = 0; i < kPuts; ++i)
      rank == 0 ? ours.put(0, source.data(), kPutBytes) : ours.wait(1);
    if (rank == 0) ours.wait(0);
    if (rank == 1) ours.put(1, source.data(), 8);
  });
  say(name, "stream", stream, kPutBytes, kPuts);
}

void measure_plain(Plain& plain, const std::vector<std::byte>& source,
                   std::vector<std::byte>& target) {
  const int64_t trips = both([&](uint32_t rank) {
    for (int i = 0; i < kTrips; ++i) {
      if (rank == 0) plain.send_all(0, source.data(), 8);
      plain.receive_all(rank, target.data() + 64 * rank, 8);
      if (rank == 1) plain.send_all(1, source.data(), 8);
    }
  });
  say("socket", "round trip of 8 bytes", trips, 8, kTrips);
  const int64_t stream = both([&](uint32_t rank) {
    for (int i = 0; i < kPuts; ++i) {
      rank == 0 ? plain.send_all(0, source.data(), kPutBytes)
                : plain.receive_all(1, target.data(), kPutBytes);
    }
    if (rank == 0) plain.receive_all(0, target.data(), 8);
    if (rank == 1) plain.send_all(1, source.data(), 8);
  });
  say("socket", "stream", stream, kPutBytes, kPuts);
}

}  // namespace
}  // namespace sk

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 5;
  const std::vector<std::byte> source(sk::kPutBytes, std::byte{3});
  std::vector<std::byte> target(sk::kPutBytes);
  sk::Plain plain;
  sk::Ours tcp(false), tls(true);
  for (int round = 0; round < rounds; ++round) {
    sk::measure_plain(plain, source, target);
    sk::measure_ours(tcp, "tcp", source);
    sk::measure_ours(tls, "tls", source);
    fflush(stdout);
  }
}
