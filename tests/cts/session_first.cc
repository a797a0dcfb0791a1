// Ranks that have had nothing to do with each other yet: their connection may be made by their
// first words, and one of them may be gone by then.
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "tests/cts/session_bodies.h"

namespace sk::cts {

using testing_support::RankContext;

namespace {

constexpr uint32_t kSignals = 64;

Result<std::unique_ptr<Endpoint>> connect(RankContext& context) {
  const SegmentLayout layout = {.world_size = context.spec.ranks,
                                .signal_count_max = kSignals,
                                .workspace_bytes_max = 64 << 10};
  return context.connect(context.bootstrap, layout);
}

// Enters the first call at every peer, and waits for all of them.
Status enter_first_call(RankContext& context, Endpoint& endpoint) {
  EntrySlot mine = {};
  mine.fingerprint = 1;
  for (uint32_t peer = 0; peer < context.spec.ranks; ++peer) {
    if (peer != context.rank)
      SK_RETURN_IF_ERROR(endpoint.session(peer).enter(mine, kCollectiveLane, 1));
  }
  return context.wait_until(endpoint, [&] {
    for (uint32_t peer = 0; peer < context.spec.ranks; ++peer) {
      const EntrySlot& slot = endpoint.entry(peer, kCollectiveLane, 1);
      if (peer != context.rank && slot.seq.load(std::memory_order_acquire) != 1) return false;
    }
    return true;
  });
}

}  // namespace

// Every rank posts to every other one at the same time, by turns from another one on.
Status first_words(RankContext& context) {
  SK_ASSIGN_OR_RETURN(auto endpoint, connect(context));
  const uint32_t ranks = context.spec.ranks;
  SK_RETURN_IF_ERROR(context.barrier(*endpoint));
  for (uint64_t round = 1; round <= 3; ++round) {
    for (uint32_t i = 0; i < ranks; ++i) {
      const uint32_t peer = uint32_t((context.rank + i * 7 + round) % ranks);
      if (ranks % 7 == 0) return broken("{} ranks are not all reached by sevens", ranks);
      SK_RETURN_IF_ERROR(endpoint->session(peer).post(context.rank, 1));
    }
    SK_RETURN_IF_ERROR(context.wait_until(*endpoint, [&] {
      for (uint32_t peer = 0; peer < ranks; ++peer)
        if (endpoint->signals()[peer].value.load(std::memory_order_acquire) < round) return false;
      return true;
    }));
  }
  for (uint32_t peer = 0; peer < ranks; ++peer) {
    if (!endpoint->session(peer).connected()) return broken("rank {} is not connected", peer);
    if (endpoint->gone(peer)) return broken("rank {} is gone", peer);
  }
  return context.barrier(*endpoint);
}

Status leaves_first(RankContext& context) {
  SK_ASSIGN_OR_RETURN(auto endpoint, connect(context));
  SK_RETURN_IF_ERROR(context.barrier(*endpoint));
  const auto victim = static_cast<uint32_t>(context.spec.numbers[kVictim]);
  if (context.rank == victim) {
    endpoint.reset();
    context.own().flag.store(1, std::memory_order_release);
    return {};
  }
  SK_RETURN_IF_ERROR(context.wait_until(*endpoint, [&] {
    return context.memory.ranks[victim].flag.load(std::memory_order_acquire) != 0;
  }));
  return enter_first_call(context, *endpoint);
}

Status dies_first(RankContext& context) {
  SK_ASSIGN_OR_RETURN(auto endpoint, connect(context));
  SK_RETURN_IF_ERROR(context.barrier(*endpoint));
  if (context.rank == context.spec.numbers[kVictim]) kill(getpid(), SIGKILL);
  return enter_first_call(context, *endpoint);
}

}  // namespace sk::cts
