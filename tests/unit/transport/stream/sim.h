// Hosts, streams and time of a test: endpoints as they are, in one thread, by a seed.
//
// A wire is two pipes of bounded room. Bytes take a while, in pieces of any size; a wire can be cut
// (nothing comes any more, and nobody says so until its silence has lasted), and a rank can die,
// where its side of each wire ends behind what has been sent. Of some pairs the wire is made when
// one of them first wants it, and each side has it a while later; who has left or died refuses.
#ifndef SK_TESTS_UNIT_TRANSPORT_STREAM_SIM_H_
#define SK_TESTS_UNIT_TRANSPORT_STREAM_SIM_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#include "transport/stream/endpoint.h"

namespace sk::stream::sim {

// Planted, to see that tests find it.
enum class Bug {
  kNone,
  kOneSided,   // Who is dialled never takes the wire.
  kSwapped,    // Who is dialled takes it for another's.
  kUnsettled,  // Who leaves does not wait for what is about to be let in.
};

struct Settings {
  uint64_t seed = 1;
  size_t room_bytes = 4096;       // Of each direction of a wire.
  size_t piece_bytes_max = 1500;  // That are sent or received at once.
  int64_t delay_ns_max = 200'000;
  int64_t silence_ns = 3'000'000'000;  // That look_after() takes for an end.
  uint64_t late_percent = 0;           // Of pairs; never of ranks that follow each other.
  Bug bug = Bug::kNone;
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

// The wire of a pair that is made late. Sides: 0 is the lower rank.
struct Dial {
  bool late = false;
  bool wanted[2] = {};
  int64_t asked_ns[2] = {};    // When it was wanted,
  int64_t arrives_ns[2] = {};  // and when the other side hears of it.
  bool made = false;
  int maker = 0;           // Whose dial it was.
  int64_t due_ns[2] = {};  // From then on that side has it,
  bool has[2] = {};        // once it has looked.
  bool over[2] = {};       // It has given it up.
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
  Dial& dial(uint32_t a, uint32_t b) { return dials_[std::min(a, b) * ranks_ + std::max(a, b)]; }
  uint32_t made_late() const { return made_late_; }

 private:
  friend class SimPipe;
  friend class SimReadiness;
  friend class SimJoiner;
  bool is_late(uint32_t a, uint32_t b) { return dial(a, b).late; }
  const uint32_t ranks_;
  const Settings settings_;
  std::mt19937_64 random_;
  int64_t now_ns_ = 1;
  std::vector<Stream> streams_;
  std::vector<Dial> dials_;
  uint32_t made_late_ = 0;
  std::vector<std::unique_ptr<HostsEndpoint>> endpoints_;
  std::vector<std::unique_ptr<HostsEndpoint>> dead_;
};

}  // namespace sk::stream::sim

#endif  // SK_TESTS_UNIT_TRANSPORT_STREAM_SIM_H_
