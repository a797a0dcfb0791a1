// What ranks of a simulated world do: messages between all pairs, by a seed.
#ifndef SK_TESTS_UNIT_TRANSPORT_STREAM_TRAFFIC_H_
#define SK_TESTS_UNIT_TRANSPORT_STREAM_TRAFFIC_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "tests/unit/transport/stream/sim.h"

namespace sk::stream::sim {

constexpr uint32_t kSlots = 3;             // Messages of a pair that may be under way.
constexpr size_t kMessageBytes = 300'000;  // At most: more than two frames.

inline SegmentLayout layout_for(uint32_t ranks) {
  SegmentLayout layout;
  layout.world_size = ranks;
  layout.signal_count_max = ranks * kSlots * 2;
  layout.heap_bytes_max = (uint64_t{ranks} * kSlots * kMessageBytes + 4095) / 4096 * 4096;
  return layout;
}

// Messages between all pairs, under the sessions' contract and no other rule: slots that are
// written again once their reader has said so, sources that are overwritten once they are free.
class Traffic {
 public:
  Traffic(World& world, uint32_t messages)
      : world_(world), ranks_(world.size()), messages_(messages), pairs_(ranks_ * ranks_) {}

  // One random deed of one rank.
  void step() {
    const auto rank = uint32_t(world_.draw(ranks_));
    if (!world_.alive(rank)) return;
    switch (world_.draw(4)) {
      case 0:
        return send(rank, uint32_t(world_.draw(ranks_)));
      case 1:
        return read(rank, uint32_t(world_.draw(ranks_)));
      case 2:
        world_.endpoint(rank).progress();
        return free_sources(rank);
      default:
        world_.pass(int64_t(world_.draw(100'000)));
    }
  }
  bool done() const {
    for (uint32_t a = 0; a < ranks_; ++a)
      for (uint32_t b = 0; b < ranks_; ++b)
        if (a != b && pairs_[a * ranks_ + b].read < messages_) return false;
    return true;
  }
  uint32_t wrong() const { return wrong_; }
  std::map<Sent, int> answers;

 private:
  struct Source {
    uint64_t number;
    std::vector<std::byte> bytes;
  };
  struct Pair {
    uint32_t sent = 0, read = 0;
    std::list<Source> sources;
  };
  static uint32_t arrived(uint32_t from, uint32_t slot) { return from * kSlots + slot; }
  uint32_t freed(uint32_t by, uint32_t slot) const { return (ranks_ + by) * kSlots + slot; }
  uint64_t place(uint32_t from, uint32_t slot) const {
    return layout_for(ranks_).heap_offset() + (uint64_t{from} * kSlots + slot) * kMessageBytes;
  }
  static std::vector<std::byte> text(uint32_t from, uint32_t to, uint32_t number) {
    std::mt19937_64 random(from * 1'000'003 + to * 1'009 + number);
    const size_t bytes = random() % 4 == 0 ? random() % kMessageBytes : random() % 2'000;
    std::vector<std::byte> out(bytes);
    for (size_t i = 0; i < bytes; ++i) out[i] = std::byte(random());
    return out;
  }

  void send(uint32_t from, uint32_t to) {
    Pair& pair = pairs_[from * ranks_ + to];
    if (from == to || pair.sent == messages_) return;
    const uint32_t slot = pair.sent % kSlots;
    HostsEndpoint& endpoint = world_.endpoint(from);
    if (endpoint.signals()[freed(to, slot)].value.load() < pair.sent / kSlots) return;
    Source source = {0, text(from, to, pair.sent)};
    Session& session = endpoint.session(to);
    Result<Sent> sent = session.put({place(from, slot)}, source.bytes.data(), source.bytes.size(),
                                    arrived(from, slot), 1);
    ASSERT_TRUE(sent.ok()) << sent.status().message();
    ++answers[*sent];
    if (*sent == Sent::kAgain) return;
    ++pair.sent;
    source.number = session.taken();
    if (*sent == Sent::kLater) {
      pair.sources.push_back(std::move(source));
    } else {
      memset(source.bytes.data(), 0xee, source.bytes.size());
    }
  }

  void free_sources(uint32_t from) {
    for (uint32_t to = 0; to < ranks_; ++to) {
      Pair& pair = pairs_[from * ranks_ + to];
      while (!pair.sources.empty() &&
             pair.sources.front().number <= world_.endpoint(from).session(to).sent())
        pair.sources.pop_front();
    }
  }

  void read(uint32_t to, uint32_t from) {
    Pair& pair = pairs_[from * ranks_ + to];
    if (from == to || pair.read == messages_) return;
    const uint32_t slot = pair.read % kSlots;
    HostsEndpoint& endpoint = world_.endpoint(to);
    if (endpoint.signals()[arrived(from, slot)].value.load() <= pair.read / kSlots) return;
    const std::vector<std::byte> due = text(from, to, pair.read);
    std::byte* here = endpoint.segment() + place(from, slot);
    if (memcmp(here, due.data(), due.size()) != 0) ++wrong_;
    memset(here, 0xdd, due.size());
    ++pair.read;
    ASSERT_TRUE(endpoint.session(from).post(freed(to, slot), 1).ok());
  }

  World& world_;
  const uint32_t ranks_, messages_;
  std::vector<Pair> pairs_;
  uint32_t wrong_ = 0;
};

inline uint64_t seeds() {
  const char* wanted = getenv("SK_SIM_SEEDS");
  return wanted == nullptr ? 16 : strtoull(wanted, nullptr, 10);
}

inline Settings settings_of(uint64_t seed) {
  std::mt19937_64 random(seed);
  return {.seed = seed,
          .room_bytes = size_t(1) << (8 + random() % 12),
          .piece_bytes_max = size_t(1) << (7 + random() % 13),
          .delay_ns_max = int64_t(random() % 3) * 500'000};
}

// Ranks in the midst of what they send each other.
struct Scene {
  explicit Scene(uint64_t seed, const Settings& settings)
      : ranks(uint32_t(2 + seed % 6)),
        world(ranks, settings, layout_for(ranks)),
        traffic(world, 40) {
    for (uint64_t steps = world.draw(20'000); steps > 0; --steps) traffic.step();
  }
  explicit Scene(uint64_t seed) : Scene(seed, settings_of(seed)) {}
  const uint32_t ranks;
  World world;
  Traffic traffic;
};

// What a rank learns of another's end, asked until it learns of one.
inline Status learn(World& world, Traffic& traffic, uint32_t rank, int64_t limit_ns) {
  const int64_t end_ns = world.now_ns() + limit_ns;
  for (;;) {
    for (int i = 0; i < 20; ++i) traffic.step();
    for (uint32_t other = 0; other < world.size(); ++other)
      if (world.alive(other)) (void)world.endpoint(other).check();
    Status status = world.endpoint(rank).check();
    if (!status.ok() || world.now_ns() > end_ns) return status;
    world.pass(1'000'000);
  }
}

}  // namespace sk::stream::sim

#endif  // SK_TESTS_UNIT_TRANSPORT_STREAM_TRAFFIC_H_
