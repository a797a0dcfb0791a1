// Hosts, streams and time of a test: endpoints as they are, in one thread, by a seed.
//
// A wire is two pipes of bounded room. Bytes take a while, in pieces of any size; a wire can be cut
// (nothing comes any more, and nobody says so until its silence has lasted), and a rank can die,
// where its side of each wire ends behind what has been sent.
#ifndef SK_TESTS_UNIT_TRANSPORT_STREAM_SIM_H_
#define SK_TESTS_UNIT_TRANSPORT_STREAM_SIM_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#include "transport/stream/endpoint.h"

namespace sk::stream::sim {

struct Settings {
  uint64_t seed = 1;
  size_t room_bytes = 4096;       // Of each direction of a wire.
  size_t piece_bytes_max = 1500;  // That are sent or received at once.
  int64_t delay_ns_max = 200'000;
  int64_t silence_ns = 3'000'000'000;  // That look_after() takes for an end.
};

class World;

// Bytes from one rank to another.
struct Stream {
  std::deque<std::byte> bytes;                 // Under way or there,
  std::deque<std::pair<int64_t, size_t>> due;  // of which so many are there from then on.
  size_t there = 0;
  bool closed = false;  // Behind what is in it.
  bool cut = false;
  int64_t cut_ns = 0;
};

class World {
 public:
  World(uint32_t ranks, const Settings& settings, const SegmentLayout& layout);
  ~World();

  uint32_t size() const { return uint32_t(endpoints_.size()); }
  HostsEndpoint& endpoint(uint32_t rank) { return *endpoints_[rank]; }
  bool alive(uint32_t rank) const { return endpoints_[rank] != nullptr; }
  int64_t now_ns() const { return now_ns_; }
  void pass(int64_t ns) { now_ns_ += ns; }
  uint64_t draw(uint64_t below) { return random_() % below; }

  void kill(uint32_t rank);          // As the kernel ends a process.
  void leave(uint32_t rank);         // Frees its endpoint.
  void cut(uint32_t a, uint32_t b);  // Both directions.
  Stream& stream(uint32_t from, uint32_t to) { return streams_[from * ranks_ + to]; }

 private:
  friend class SimPipe;
  friend class SimReadiness;
  const uint32_t ranks_;
  const Settings settings_;
  std::mt19937_64 random_;
  int64_t now_ns_ = 1;
  std::vector<Stream> streams_;
  std::vector<std::unique_ptr<HostsEndpoint>> endpoints_;
  std::vector<std::unique_ptr<HostsEndpoint>> dead_;
};

}  // namespace sk::stream::sim

#endif  // SK_TESTS_UNIT_TRANSPORT_STREAM_SIM_H_
