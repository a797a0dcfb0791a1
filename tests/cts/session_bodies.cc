#include "tests/cts/session_bodies.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <string>
#include <vector>

namespace sk::cts {

using testing_support::RankContext;

namespace {

constexpr uint64_t kPage = 4096;

SegmentLayout small_layout(uint32_t ranks) {
  return {.world_size = ranks,
          .signal_count_max = 64,
          .workspace_bytes_max = 16 * kPage,
          .heap_bytes_max = 4 << 20};
}

Result<std::unique_ptr<Endpoint>> connect_small(RankContext& context) {
  return context.connect(context.bootstrap, small_layout(context.spec.ranks));
}

uint64_t signal(Endpoint& endpoint, uint32_t index) {
  return endpoint.signals()[index].value.load(std::memory_order_acquire);
}

bool all_bytes(const std::byte* at, uint64_t bytes, unsigned char value) {
  // Every byte equals the one before it.
  return at[0] == std::byte{value} && memcmp(at, at + 1, bytes - 1) == 0;
}

// What `rank` writes for a call.
void fill_entry(uint64_t seed, uint64_t rank, uint64_t lane, uint64_t seq, EntrySlot& entry) {
  Dice dice(seed, rank, lane, seq);
  entry.fingerprint = dice.next();
  entry.other_lane = dice.next();
  for (uint64_t& word : entry.words) word = dice.next();
}

// Enters call `seq` of `lane` at every peer and checks what every peer has entered.
Status enter_call(RankContext& context, Endpoint& endpoint, EntryLane lane, uint64_t seq) {
  const uint64_t seed = context.spec.seed;
  EntrySlot mine = {};
  fill_entry(seed, context.rank, lane, seq, mine);
  for (uint32_t peer = 0; peer < context.spec.ranks; ++peer) {
    if (peer != context.rank) SK_RETURN_IF_ERROR(endpoint.session(peer).enter(mine, lane, seq));
  }
  for (uint32_t peer = 0; peer < context.spec.ranks; ++peer) {
    if (peer == context.rank) continue;
    const EntrySlot& slot = endpoint.entry(peer, lane, seq);
    SK_RETURN_IF_ERROR(context.wait_until(
        endpoint, [&] { return slot.seq.load(std::memory_order_acquire) >= seq; }));
    EntrySlot due = {};
    fill_entry(seed, peer, lane, seq, due);
    if (slot.seq.load(std::memory_order_acquire) != seq || slot.fingerprint != due.fingerprint ||
        slot.other_lane != due.other_lane ||
        memcmp(slot.words, due.words, sizeof(due.words)) != 0) {
      return broken("rank {}'s entry of call {} in lane {} is not what it wrote", peer, seq,
                    static_cast<int>(lane));
    }
  }
  return {};
}

Status wait_for_ever(RankContext& context, Endpoint& endpoint) {
  return context.wait_until(endpoint, [] { return false; });
}

}  // namespace

Status entries(RankContext& context) {
  SK_ASSIGN_OR_RETURN(auto endpoint, connect_small(context));
  Dice dice(context.spec.seed, context.rank);
  uint64_t seq[kEntryLaneCount] = {};
  Dice order(context.spec.seed, 999);  // The same on all ranks.
  for (int call = 0; call < 200; ++call) {
    const auto lane = static_cast<EntryLane>(order.below(kEntryLaneCount));
    SK_RETURN_IF_ERROR(enter_call(context, *endpoint, lane, ++seq[lane]));
    if (dice.below(4) == 0) SK_RETURN_IF_ERROR(endpoint->check());
  }
  return context.barrier(*endpoint);
}

Status memory(RankContext& context) {
  SK_ASSIGN_OR_RETURN(auto endpoint, connect_small(context));
  const SegmentLayout& layout = endpoint->layout();
  const uint64_t heap = layout.heap_offset();
  Dice dice(context.spec.seed, 7);  // The same on all ranks.
  for (int round = 0; round < 8; ++round) {
    const uint64_t offset = heap + dice.below(512) * kPage;
    const uint64_t bytes = (1 + dice.below(dice.below(4) == 0 ? 512 : 32)) * kPage;
    SK_RETURN_IF_ERROR(endpoint->commit(offset, bytes));
    std::byte* at = endpoint->segment() + offset;
    if (!all_bytes(at, bytes, 0)) return broken("committed memory is not zero");
    memset(at, 0xab, bytes);
    SK_RETURN_IF_ERROR(context.barrier(*endpoint));
    for (uint32_t peer = 0; peer < context.spec.ranks; ++peer) {
      const MappedView* view = endpoint->session(peer).mapped();
      const std::byte* base = view != nullptr ? view->segment : nullptr;
      if ((base != nullptr) != endpoint->session(peer).caps().mapped) {
        return broken("mapped() and caps().mapped differ for rank {}", peer);
      }
      if (base != nullptr && !all_bytes(base + offset, bytes, 0xab)) {
        return broken("rank {}'s memory is not what it wrote", peer);
      }
      if (base == nullptr && endpoint->mapped()) return broken("mapped, but not rank {}", peer);
    }
    SK_RETURN_IF_ERROR(context.barrier(*endpoint));
    SK_RETURN_IF_ERROR(endpoint->release(offset, bytes));
  }
  for (const auto& [offset, bytes] : {std::pair<uint64_t, uint64_t>{heap + 1, kPage},
                                      {heap, kPage + 8},
                                      {heap, layout.bytes()},
                                      {layout.bytes(), kPage},
                                      {UINT64_MAX - kPage + 1, kPage}}) {
    if (endpoint->commit(offset, bytes).ok())
      return broken("[{}, +{}) was committed", offset, bytes);
  }
  return context.barrier(*endpoint);
}

Status bad_arguments(RankContext& context) {
  SK_ASSIGN_OR_RETURN(auto endpoint, connect_small(context));
  const SegmentLayout& layout = endpoint->layout();
  SK_RETURN_IF_ERROR(endpoint->commit(layout.workspace_offset(), kPage));
  const std::vector<std::byte> source(kPage, std::byte{0xcd});
  Session& session = endpoint->session((context.rank + 1) % context.spec.ranks);
  for (const uint64_t offset : {layout.bytes() - kPage + 1, layout.bytes(), UINT64_MAX - 100}) {
    if (session.put({offset}, source.data(), kPage, 0, 1).ok()) {
      return broken("a put at {} of {} was taken", offset, layout.bytes());
    }
  }
  if (session.put({0}, source.data(), SIZE_MAX, 0, 1).ok()) return broken("a huge put was taken");
  if (session.put({layout.workspace_offset()}, source.data(), kPage, 64, 1).ok() ||
      session.post(64, 1).ok() || session.post(UINT32_MAX, 1).ok()) {
    return broken("a signal beyond the last was taken");
  }
  SK_RETURN_IF_ERROR(context.barrier(*endpoint));
  for (int i = 0; i < 20; ++i) SK_RETURN_IF_ERROR(endpoint->check());
  SK_RETURN_IF_ERROR(context.barrier(*endpoint));
  for (uint32_t index = 0; index < 64; ++index) {
    if (signal(*endpoint, index) != 0) return broken("signal {} moved", index);
  }
  if (!all_bytes(endpoint->segment() + layout.workspace_offset(), kPage, 0)) {
    return broken("bytes moved");
  }
  return context.barrier(*endpoint);
}

// Rank 0 sleeps until it is rung; the next rank posts only when it knows that rank 0's `sleeping`
// is up, so the wake cannot be lost, and a sleep that uses up its timeout was not woken.
Status sleepers(RankContext& context) {
  SK_ASSIGN_OR_RETURN(auto endpoint, connect_small(context));
  constexpr int64_t kTimeoutNs = 20'000'000'000;
  std::atomic<uint32_t>& asleep = context.memory.ranks[0].flag;
  for (uint32_t round = 1; round <= 100; ++round) {
    const uint32_t poster = 1 + round % (context.spec.ranks - 1);
    if (context.rank == 0) {
      RankHeader& header = endpoint->header();
      const uint32_t doorbell = header.doorbell.load(std::memory_order_acquire);
      header.sleeping.fetch_add(1, std::memory_order_seq_cst);
      asleep.store(round, std::memory_order_seq_cst);
      const auto start = std::chrono::steady_clock::now();
      while (signal(*endpoint, poster) < round) {
        endpoint->sleep(doorbell, kTimeoutNs);
        if (header.doorbell.load(std::memory_order_acquire) != doorbell) break;
      }
      header.sleeping.fetch_sub(1, std::memory_order_seq_cst);
      const auto slept = std::chrono::steady_clock::now() - start;
      if (slept > std::chrono::nanoseconds(kTimeoutNs / 2)) return broken("nobody woke rank 0");
    } else if (context.rank == poster) {
      SK_RETURN_IF_ERROR(context.wait_until(
          *endpoint, [&] { return asleep.load(std::memory_order_seq_cst) >= round; }));
      const uint32_t add = round - context.own().flag.exchange(round);
      SK_RETURN_IF_ERROR(endpoint->session(0).post(poster, add));
    }
    SK_RETURN_IF_ERROR(context.wait_until(
        *endpoint, [&] { return context.rank != 0 || signal(*endpoint, poster) >= round; }));
    SK_RETURN_IF_ERROR(context.barrier(*endpoint));
  }
  return {};
}

Status aborts(RankContext& context) {
  SK_ASSIGN_OR_RETURN(auto endpoint, connect_small(context));
  SK_RETURN_IF_ERROR(context.barrier(*endpoint));
  if (context.rank == context.spec.numbers[kVictim]) {
    for (uint64_t i = context.spec.numbers[kVictimCount]; i > 0; --i) {
      SK_RETURN_IF_ERROR(endpoint->check());
    }
    endpoint->abort(AbortCause::kAborted, context.rank, "the input is odd");
  }
  const Status first = wait_for_ever(context, *endpoint);
  const Status again = endpoint->check();
  if (again.code() != first.code() || again.message() != first.message()) {
    return broken("first '{}', then '{}'", first.message(), again.message());
  }
  return first.clone();
}

Status two_aborts(RankContext& context) {
  SK_ASSIGN_OR_RETURN(auto endpoint, connect_small(context));
  SK_RETURN_IF_ERROR(context.barrier(*endpoint));
  if (context.rank + 2 >= context.spec.ranks) {
    const auto cause = context.rank % 2 == 0 ? AbortCause::kAborted : AbortCause::kTimeout;
    endpoint->abort(cause, context.rank, fmt::format("reason {}", context.rank));
  }
  return wait_for_ever(context, *endpoint);
}

// The victim frees its endpoint after call 1. That disturbs nobody, until a call needs it.
Status leaves(RankContext& context) {
  SK_ASSIGN_OR_RETURN(auto endpoint, connect_small(context));
  const auto victim = static_cast<uint32_t>(context.spec.numbers[kVictim]);
  SK_RETURN_IF_ERROR(enter_call(context, *endpoint, kCollectiveLane, 1));
  if (context.rank == victim) {
    for (uint32_t peer = 0; peer < context.spec.ranks; ++peer) {
      SK_RETURN_IF_ERROR(endpoint->session(peer).post(victim, 1));
    }
    endpoint.reset();
    context.own().phase.store(1, std::memory_order_release);  // Never late to the barrier below.
    context.own().flag.store(1, std::memory_order_release);
    return {};
  }
  SK_RETURN_IF_ERROR(context.wait_until(*endpoint, [&] {
    return context.memory.ranks[victim].flag.load(std::memory_order_acquire) != 0;
  }));
  for (uint32_t i = 1; i <= 50; ++i) {
    for (uint32_t peer = 0; peer < context.spec.ranks; ++peer) {
      if (peer != victim) SK_RETURN_IF_ERROR(endpoint->session(peer).post(context.rank, 1));
    }
    SK_RETURN_IF_ERROR(context.wait_until(*endpoint, [&] {
      for (uint32_t peer = 0; peer < context.spec.ranks; ++peer) {
        if (signal(*endpoint, peer) < (peer == victim ? 1 : i)) return false;
      }
      return true;
    }));
    if (Status status = endpoint->check(); !status.ok()) {
      return broken("one that left is missed early: {}", status.message());
    }
  }
  SK_RETURN_IF_ERROR(context.barrier(*endpoint));
  return enter_call(context, *endpoint, kCollectiveLane, 2);
}

// Whether `rank` is gone for whoever asks, at once or a little later.
bool becomes_gone(Endpoint& endpoint, uint32_t rank) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!endpoint.gone(rank)) {
    if (std::chrono::steady_clock::now() > end) return false;
    sched_yield();
  }
  return true;
}

// The lowest ranks free their endpoints and their processes end, in turn; then the victim dies.
Status outlives(RankContext& context) {
  SK_ASSIGN_OR_RETURN(auto endpoint, connect_small(context));
  for (uint32_t rank = 0; rank < context.spec.ranks; ++rank)
    if (endpoint->gone(rank)) return broken("rank {} is gone before anybody leaves", rank);
  SK_RETURN_IF_ERROR(context.barrier(*endpoint));
  const auto victim = static_cast<uint32_t>(context.spec.numbers[kVictim]);
  const auto leavers = static_cast<uint32_t>(context.spec.numbers[kVictimCount]);
  const auto flag = [&](uint32_t rank) -> auto& { return context.memory.ranks[rank].flag; };
  Dice dice(context.spec.seed, context.rank);
  // Who looks now and then may have come to be the one that looks after the others.
  const bool looks = dice.below(2) == 0;
  for (uint32_t rank = 0; rank < std::min(context.rank, leavers); ++rank) {
    if (looks) {
      SK_RETURN_IF_ERROR(context.wait_until(*endpoint, [&] { return flag(rank).load() != 0; }));
    }
    while (context.memory.ranks[rank].ended.load() == 0) sched_yield();
  }
  if (context.rank < leavers) {
    endpoint.reset();
    context.own().phase.store(UINT64_MAX);  // Never late to a barrier.
    flag(context.rank).store(1);
    return {};
  }
  flag(context.rank).store(1);
  for (uint32_t rank = leavers; rank < context.spec.ranks; ++rank)
    while (flag(rank).load() == 0) sched_yield();
  if (context.rank == victim) {
    if (dice.below(2) == 0) SK_RETURN_IF_ERROR(endpoint->check());
    kill(getpid(), SIGKILL);
  }
  Status ended = wait_for_ever(context, *endpoint);
  for (uint32_t rank = 0; rank < leavers; ++rank)
    if (!becomes_gone(*endpoint, rank)) return broken("rank {} has left and is not gone", rank);
  if (!becomes_gone(*endpoint, victim)) return broken("rank {} died and is not gone", victim);
  if (endpoint->gone(context.rank)) return broken("rank {} is gone to itself", context.rank);
  return ended;
}

// Looks only once the test says so.
Status late_look(RankContext& context) {
  SK_ASSIGN_OR_RETURN(auto endpoint, connect_small(context));
  SK_RETURN_IF_ERROR(context.barrier(*endpoint));
  context.own().flag.store(1);
  while (context.own().progress.load() == 0) sched_yield();
  return wait_for_ever(context, *endpoint);
}

Status leaving_nothing(RankContext& context, Status (*body)(RankContext&)) {
  using namespace testing_support;
  const bool alone = context.spec.processes >= context.spec.ranks;
  const size_t descriptors = open_descriptors();
  const size_t thread_count = threads();
  Status status = body(context);
  if (!alone) return status;
  if (open_descriptors() != descriptors) {
    return broken("{} descriptors before, {} after ({})", descriptors, open_descriptors(),
                  status.message());
  }
  if (threads() != thread_count || mapped_segments() != 0) {
    return broken("{} threads before, {} after, {} segments still mapped", thread_count, threads(),
                  mapped_segments());
  }
  return status;
}

}  // namespace sk::cts
