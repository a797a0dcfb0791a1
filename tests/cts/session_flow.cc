// What is under way when one end does not look: nothing waits in a put, nothing is lost.
#include <sched.h>

#include <cstring>
#include <vector>

#include "tests/cts/session_bodies.h"

namespace sk::cts {
namespace {

using testing_support::RankContext;

constexpr uint64_t kBytes = 16384;
constexpr uint32_t kPuts = 64;

Result<std::unique_ptr<Endpoint>> connect(RankContext& context) {
  const SegmentLayout layout = {.world_size = context.spec.ranks,
                                .signal_count_max = context.spec.ranks,
                                .workspace_bytes_max = context.spec.ranks * kPuts * kBytes};
  SK_ASSIGN_OR_RETURN(auto endpoint, context.connect(context.bootstrap, layout));
  SK_RETURN_IF_ERROR(endpoint->commit(layout.workspace_offset(), layout.workspace_bytes_max));
  SK_RETURN_IF_ERROR(context.barrier(*endpoint));
  return endpoint;
}

uint64_t place_of(uint32_t from, uint32_t number) {
  return (uint64_t{from} * kPuts + number) * kBytes;
}

std::byte content_of(const RankContext& context, uint32_t from, uint32_t number) {
  return std::byte(Dice(context.spec.seed, from, number).below(256));
}

// The puts of one rank to another, in order.
class Sender {
 public:
  Sender(RankContext& context, Endpoint& endpoint, uint32_t peer)
      : context_(context), session_(endpoint.session(peer)), source_(kPuts) {}

  bool done() const { return next_ == kPuts; }
  bool sent() const { return session_.sent() >= session_.taken(); }
  // One try; whether it was taken.
  Result<bool> put() {
    std::vector<std::byte>& source = source_[next_];
    source.assign(kBytes, content_of(context_, context_.rank, next_));
    SK_ASSIGN_OR_RETURN(const Sent sent, session_.put({place_of(context_.rank, next_)},
                                                      source.data(), kBytes, context_.rank, 1));
    if (sent == Sent::kAgain) return false;
    if (sent == Sent::kNow) source.clear();
    ++next_;
    return true;
  }

 private:
  RankContext& context_;
  Session& session_;
  uint32_t next_ = 0;
  std::vector<std::vector<std::byte>> source_;  // By put.
};

Status all_came(RankContext& context, Endpoint& endpoint, uint32_t from) {
  SK_RETURN_IF_ERROR(context.wait_until(endpoint, [&] {
    return endpoint.signals()[from].value.load(std::memory_order_acquire) == kPuts;
  }));
  for (uint32_t number = 0; number < kPuts; ++number) {
    const std::byte* at = endpoint.segment() + place_of(from, number);
    const std::byte is = content_of(context, from, number);
    for (uint64_t i = 0; i < kBytes; ++i)
      if (at[i] != is) return broken("byte {} of put {} of rank {}", i, number, from);
  }
  return {};
}

}  // namespace

// Rank 0 puts to all others, which do not call anything meanwhile.
Status unlooked(RankContext& context) {
  SK_ASSIGN_OR_RETURN(auto endpoint, connect(context));
  if (context.rank != 0) {
    while (context.memory.ranks[0].flag.load(std::memory_order_acquire) == 0) sched_yield();
    SK_RETURN_IF_ERROR(all_came(context, *endpoint, 0));
    return context.barrier(*endpoint);
  }
  std::vector<Sender> senders;
  for (uint32_t peer = 1; peer < context.spec.ranks; ++peer)
    senders.emplace_back(context, *endpoint, peer);
  const auto all_done = [&] {
    for (const Sender& sender : senders)
      if (!sender.done() || !sender.sent()) return false;
    return true;
  };
  // There may be no room for all, but no put waits for it.
  for (int in_vain = 0; in_vain < 1000 && !all_done(); ++in_vain) {
    for (Sender& sender : senders) {
      while (!sender.done()) {
        SK_ASSIGN_OR_RETURN(const bool taken, sender.put());
        if (!taken) break;
        in_vain = 0;
      }
    }
    endpoint->progress();
  }
  context.own().flag.store(1, std::memory_order_release);
  Status status;
  SK_RETURN_IF_ERROR(context.wait_until(*endpoint, [&] {
    for (Sender& sender : senders) {
      if (sender.done()) continue;
      const Result<bool> taken = sender.put();
      if (!taken.ok()) status = taken.status().clone();
    }
    endpoint->progress();
    return !status.ok() || all_done();
  }));
  SK_RETURN_IF_ERROR(std::move(status));
  return context.barrier(*endpoint);
}

// Every rank but the last puts to it, drains and goes; only then it looks.
Status drains(RankContext& context) {
  SK_ASSIGN_OR_RETURN(auto endpoint, connect(context));
  const uint32_t last = context.spec.ranks - 1;
  if (context.rank == last) {
    for (uint32_t rank = 0; rank < last; ++rank)
      while (context.memory.ranks[rank].flag.load(std::memory_order_acquire) == 0) sched_yield();
    for (uint32_t rank = 0; rank < last; ++rank)
      SK_RETURN_IF_ERROR(all_came(context, *endpoint, rank));
    return {};
  }
  Sender sender(context, *endpoint, last);
  Status status;
  SK_RETURN_IF_ERROR(context.wait_until(*endpoint, [&] {
    const Result<bool> taken = sender.put();
    if (!taken.ok()) status = taken.status().clone();
    return !status.ok() || sender.done();
  }));
  SK_RETURN_IF_ERROR(std::move(status));
  SK_RETURN_IF_ERROR(endpoint->drain(10'000'000'000));
  if (!sender.sent()) return broken("drained, but not sent");
  endpoint.reset();
  context.own().flag.store(1, std::memory_order_release);
  return {};
}

}  // namespace sk::cts
