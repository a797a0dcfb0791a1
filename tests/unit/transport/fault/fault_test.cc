// The fault decorator against a transport that only writes down what it is asked to do.
#include "transport/fault/fault.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <vector>

namespace sk {
namespace {

constexpr SegmentLayout kLayout = {
    .world_size = 3, .signal_count_max = 1000, .workspace_bytes_max = 1 << 20};

struct Event {
  uint32_t to;
  uint32_t signal;
  uint32_t add;
  bool operator==(const Event&) const = default;
};

// What three ranks' memory and calls look like, all in one place.
struct World {
  std::vector<Event> events;
  std::vector<std::vector<std::byte>> memory = std::vector<std::vector<std::byte>>(
      3, std::vector<std::byte>(kLayout.bytes(), std::byte{0xee}));
  std::vector<std::pair<AbortCause, uint32_t>> aborts;
  size_t largest_put = 0;
  size_t puts = 0;
  bool ordered = true;
};

class PlainSession final : public Session {
 public:
  PlainSession(World& world, uint32_t to) : world_(world), to_(to) {
    caps_ = {.mapped = true, .ordered = world.ordered};
    view_.segment = world.memory[to].data();
  }
  const SessionCaps& caps() const override { return caps_; }
  const MappedView* mapped() const override { return &view_; }
  Result<Sent> put(PutTarget dst, const void* src, size_t bytes, uint32_t signal,
                   uint32_t add) override {
    if (bytes != 0) memcpy(world_.memory[to_].data() + dst.offset, src, bytes);
    world_.largest_put = std::max(world_.largest_put, bytes);
    ++world_.puts;
    SK_RETURN_IF_ERROR(post(signal, add));
    return Sent::kNow;
  }
  Status post(uint32_t signal, uint32_t add) override {
    if (add != 0) world_.events.push_back({to_, signal, add});
    return {};
  }
  Status enter(const EntrySlot& entry, EntryLane lane, uint64_t seq) override {
    world_.events.push_back({to_, static_cast<uint32_t>(10'000 + lane * 1000 + seq),
                             static_cast<uint32_t>(entry.fingerprint)});
    entered_[lane] = seq;
    return {};
  }
  uint64_t entered(EntryLane lane) const override { return entered_[lane]; }

 private:
  World& world_;
  uint32_t to_;
  SessionCaps caps_;
  MappedView view_;
  uint64_t entered_[kEntryLaneCount] = {};
};

class PlainEndpoint final : public Endpoint {
 public:
  PlainEndpoint(World& world, uint32_t rank) : world_(world) {
    rank_ = rank;
    layout_ = kLayout;
    own_.segment = world.memory[rank].data();
    for (uint32_t peer = 0; peer < 3; ++peer) sessions_.emplace_back(world, peer);
  }
  Session& session(uint32_t peer) override { return sessions_[peer]; }
  bool mapped() const override { return true; }
  bool gone(uint32_t) override { return false; }
  uint64_t entered_by(uint32_t) const override { return 0; }
  Status commit(uint64_t, uint64_t) override { return {}; }
  Status release(uint64_t, uint64_t) override { return {}; }
  Status check() override { return world_.aborts.empty() ? Status() : abort_status(); }
  void abort(AbortCause cause, uint32_t rank, const std::string&) override {
    world_.aborts.emplace_back(cause, rank);
  }
  Status abort_status() const override { return error(SK_ERR_PEER_LOST, "as told"); }
  void sleep(uint32_t, int64_t) override {}
  void ring(uint32_t) override {}

 private:
  World& world_;
  std::deque<PlainSession> sessions_;
};

std::vector<std::unique_ptr<Endpoint>> wrap_all(FaultNetwork& network, World& world) {
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    endpoints.push_back(network.wrap(std::make_unique<PlainEndpoint>(world, rank)));
  }
  return endpoints;
}

uint64_t slot_of(uint32_t signal) { return kLayout.workspace_offset() + uint64_t{signal} * 100; }

// Sends `count` puts from rank 0 to rank 1; put i is 100 bytes of i, signal i, add i + 1.
void send_puts(Endpoint& endpoint, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    std::vector<std::byte> bytes(100, std::byte(i));
    ASSERT_TRUE(endpoint.session(1).put({slot_of(i)}, bytes.data(), 100, i, i + 1).ok());
    std::fill(bytes.begin(), bytes.end(), std::byte{0xdd});
  }
}

std::vector<Event> run_seed(uint64_t seed, bool ordered) {
  World world;
  world.ordered = ordered;
  auto network = make_fault_network({.seed = seed, .again_percent = 0, .later_percent = 0});
  auto endpoints = wrap_all(*network, world);
  send_puts(*endpoints[0], 40);
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(endpoints[2]->check().ok());
  for (uint32_t i = 0; i < 40; ++i) {
    const Event due = {1, i, i + 1};
    EXPECT_EQ(std::count(world.events.begin(), world.events.end(), due), 1) << "put " << i;
    const std::vector<std::byte> bytes(100, std::byte(i));
    EXPECT_EQ(memcmp(&world.memory[1][slot_of(i)], bytes.data(), 100), 0) << "put " << i;
  }
  EXPECT_EQ(world.events.size(), 40u);
  // Pieces may only follow each other where the transport keeps their order.
  EXPECT_EQ(world.puts > 40, ordered);
  uint64_t late = 0;
  for (size_t i = 0, newest = 0; i < world.events.size(); ++i) {
    late += world.events[i].signal < newest ? 1 : 0;
    newest = std::max<size_t>(newest, world.events[i].signal);
  }
  EXPECT_EQ(network->overtaken(), late);
  return world.events;
}

TEST(Fault, DeliversEverythingOnceInAnotherOrder) {
  const uint64_t seed = testing::UnitTest::GetInstance()->random_seed();
  for (const bool ordered : {true, false}) {
    const std::vector<Event> events = run_seed(seed, ordered);
    EXPECT_FALSE(std::is_sorted(events.begin(), events.end(),
                                [](const Event& a, const Event& b) { return a.signal < b.signal; }))
        << "seed " << seed;
    EXPECT_EQ(events, run_seed(seed, ordered)) << "a seed must repeat itself";
    EXPECT_NE(events, run_seed(seed + 1, ordered));
  }
}

// The bytes must be whole when the signal comes, whichever piece went last.
TEST(Fault, SignalsOnlyWholePuts) {
  World world;
  auto network =
      make_fault_network({.seed = 5, .hold_percent = 100, .again_percent = 0, .later_percent = 0});
  auto endpoints = wrap_all(*network, world);
  send_puts(*endpoints[0], 60);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(endpoints[1]->check().ok());
    for (const Event& event : world.events) {
      for (int at = 0; at < 100; ++at) {
        ASSERT_EQ(world.memory[1][slot_of(event.signal) + at], std::byte(event.signal));
      }
    }
  }
  EXPECT_EQ(world.events.size(), 60u);
}

TEST(Fault, LeavesNothingLyingForLong) {
  World world;
  auto network = make_fault_network({.seed = 9,
                                     .hold_percent = 100,
                                     .held_max = 1000,
                                     .passed_over_max = 3,
                                     .again_percent = 0,
                                     .later_percent = 0});
  auto endpoints = wrap_all(*network, world);
  for (uint32_t i = 0; i < 100; ++i) ASSERT_TRUE(endpoints[0]->session(2).post(i, 1).ok());
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(endpoints[1]->check().ok());
  EXPECT_EQ(world.events.size(), 100u);
}

TEST(Fault, HidesMappedMemory) {
  World world;
  auto network = make_fault_network({.again_percent = 0, .later_percent = 0});
  auto endpoints = wrap_all(*network, world);
  EXPECT_FALSE(endpoints[0]->mapped());
  EXPECT_EQ(endpoints[0]->session(1).mapped(), nullptr);
  EXPECT_FALSE(endpoints[0]->session(1).caps().mapped);
  EXPECT_FALSE(endpoints[0]->session(1).caps().ordered);
}

TEST(Fault, AnEndpointThatGoesHasSentEverything) {
  World world;
  auto network =
      make_fault_network({.seed = 3, .hold_percent = 100, .again_percent = 0, .later_percent = 0});
  auto endpoints = wrap_all(*network, world);
  send_puts(*endpoints[0], 30);
  EntrySlot entry = {};
  entry.fingerprint = 77;
  ASSERT_TRUE(endpoints[0]->session(2).enter(entry, kPairLane, 5).ok());
  endpoints[0].reset();
  EXPECT_EQ(world.events.size(), 31u);
  const Event entered = {2, 10'000 + kPairLane * 1000 + 5, 77};
  EXPECT_EQ(std::count(world.events.begin(), world.events.end(), entered), 1);
}

TEST(Fault, TakesNoPutBeforeItIsDriven) {
  World world;
  auto network =
      make_fault_network({.seed = 3, .hold_percent = 0, .again_percent = 50, .later_percent = 0});
  auto endpoints = wrap_all(*network, world);
  Session& session = endpoints[0]->session(1);
  const std::byte byte{7};
  uint32_t taken = 0, refused = 0;
  while (taken < 100) {
    Result<Sent> sent = session.put({slot_of(1)}, &byte, 1, 1, 1);
    ASSERT_TRUE(sent.ok());
    if (*sent == Sent::kNow) {
      ++taken;
      continue;
    }
    ++refused;
    ASSERT_LT(refused, 1000u);
    for (int i = 0; i < 5; ++i) {
      Result<Sent> again = session.put({slot_of(1)}, &byte, 1, 1, 1);
      ASSERT_TRUE(again.ok() && *again == Sent::kAgain) << "nothing has made room";
    }
    EXPECT_EQ(world.events.size(), taken) << "what was not taken has not happened";
    endpoints[0]->progress();
  }
  EXPECT_GT(refused, 20u);
  EXPECT_EQ(world.events.size(), 100u);
}

TEST(Fault, ReadsASourceUntilItIsSent) {
  World world;
  auto network = make_fault_network(
      {.seed = 3, .hold_percent = 100, .again_percent = 0, .later_percent = 100});
  auto endpoints = wrap_all(*network, world);
  Session& session = endpoints[0]->session(1);
  std::vector<std::byte> source(100, std::byte{1});
  Result<Sent> sent = session.put({slot_of(1)}, source.data(), 100, 1, 1);
  ASSERT_TRUE(sent.ok() && *sent == Sent::kLater);
  EXPECT_LT(session.sent(), session.taken());
  std::fill(source.begin(), source.end(), std::byte{2});  // Too early: it arrives so.
  while (session.sent() < session.taken()) ASSERT_TRUE(endpoints[2]->check().ok());
  EXPECT_EQ(world.memory[1][slot_of(1)], std::byte{2});
  // What has ended reads nothing any more.
  sent = session.put({slot_of(2)}, source.data(), 100, 2, 1);
  ASSERT_TRUE(sent.ok() && *sent == Sent::kLater);
  endpoints[0]->abort(AbortCause::kAborted, 0, "no more");
  EXPECT_EQ(session.sent(), session.taken());
  source = {};
  endpoints.clear();
  EXPECT_EQ(world.memory[1][slot_of(2)], std::byte{0xee});
}

TEST(Fault, TheDeadNeitherSendNorReceive) {
  World world;
  auto network =
      make_fault_network({.seed = 4, .hold_percent = 100, .again_percent = 0, .later_percent = 0});
  auto endpoints = wrap_all(*network, world);
  ASSERT_TRUE(endpoints[0]->check().ok());
  network->kill(1);
  send_puts(*endpoints[0], 5);
  ASSERT_TRUE(endpoints[1]->session(2).post(7, 1).ok());
  ASSERT_TRUE(endpoints[0]->session(2).post(8, 1).ok());
  EXPECT_EQ(endpoints[2]->check().code(), SK_ERR_PEER_LOST);
  ASSERT_FALSE(world.aborts.empty());
  EXPECT_EQ(world.aborts[0], std::make_pair(AbortCause::kPeerLost, 1u));
  endpoints.clear();
  EXPECT_EQ(world.events, (std::vector<Event>{{2, 8, 1}}));
}

TEST(Fault, AVictimDiesAtItsMessage) {
  World world;
  auto network = make_fault_network(
      {.seed = 4, .again_percent = 0, .later_percent = 0, .kill_rank = 0, .kill_message = 12});
  auto endpoints = wrap_all(*network, world);
  for (uint32_t i = 0; i < 12; ++i) ASSERT_TRUE(endpoints[0]->session(2).post(i, 1).ok());
  EXPECT_TRUE(endpoints[2]->check().ok());
  ASSERT_TRUE(endpoints[0]->session(2).post(12, 1).ok());
  EXPECT_EQ(endpoints[2]->check().code(), SK_ERR_PEER_LOST);
  for (const Event& event : world.events) EXPECT_LT(event.signal, 12u);
}

TEST(Fault, RefusesWhatTheTransportWould) {
  World world;
  auto network = make_fault_network({.again_percent = 0, .later_percent = 0});
  auto endpoints = wrap_all(*network, world);
  const std::byte byte{};
  Session& session = endpoints[0]->session(1);
  EXPECT_FALSE(session.put({kLayout.bytes()}, &byte, 1, 0, 1).ok());
  EXPECT_FALSE(session.put({0}, &byte, 1, kLayout.signal_count_max, 1).ok());
  EXPECT_FALSE(session.post(kLayout.signal_count_max, 1).ok());
  endpoints.clear();
  EXPECT_TRUE(world.events.empty());
}

}  // namespace
}  // namespace sk
