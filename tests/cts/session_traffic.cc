// The put contract under load: when a signal has grown, the bytes are there, all of them, and
// nothing beside them; no signal is lost or doubled.
//
// Every rank has kSlots slots for every rank's messages, also its own. A sender puts message i into
// a slot, its data signal growing by an amount of that message; the receiver checks every byte of
// the slot, poisons it, and posts a credit back. What a message holds follows from the seed, so
// nothing but the payload itself crosses by the session.
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "tests/cts/session_bodies.h"

namespace sk::cts {
namespace {

using testing_support::RankContext;

constexpr uint32_t kSlots = 3;
constexpr uint64_t kSlotBytes = 8192;
constexpr unsigned char kPoison = 0xa5;

struct Message {
  uint64_t offset;  // In its slot.
  uint64_t bytes;
  uint32_t add;  // 1 to 5.
  Dice content;
};

Message message_of(uint64_t seed, uint64_t from, uint64_t to, uint64_t slot, uint64_t index) {
  Dice dice(seed, from << 8 | to, slot, index);
  constexpr uint64_t kEdges[] = {0, 1, 63, 64, 65, 4095, 4096, 4097, kSlotBytes};
  const uint64_t bytes =
      dice.below(3) == 0 ? kEdges[dice.below(std::size(kEdges))] : dice.below(kSlotBytes + 1);
  const uint64_t offset = dice.below(kSlotBytes - bytes + 1);
  const auto add = static_cast<uint32_t>(1 + dice.below(5));
  return {offset, bytes, add, dice};
}

void fill(Dice content, uint64_t bytes, unsigned char* out) {
  for (uint64_t i = 0; i < bytes; i += 8) {
    const uint64_t word = content.next();
    memcpy(out + i, &word, std::min<uint64_t>(8, bytes - i));
  }
}

// One slot of one pair, as each end sees it.
struct Line {
  uint64_t sent = 0;
  uint64_t received = 0;
  uint64_t due = 0;  // Of the data signal, with the messages received so far.
};

class Traffic {
 public:
  Traffic(RankContext& context, Endpoint& endpoint)
      : context_(context),
        endpoint_(endpoint),
        layout_(endpoint.layout()),
        dice_(context.spec.seed, 1000 + context.rank),
        lines_(context.spec.ranks * kSlots),
        expected_(kSlotBytes) {}

  Status run() {
    memset(endpoint_.segment() + layout_.workspace_offset(), kPoison,
           context_.spec.ranks * kSlots * kSlotBytes);
    SK_RETURN_IF_ERROR(context_.barrier(endpoint_));
    Status status;
    SK_RETURN_IF_ERROR(context_.wait_until(endpoint_, [&] {
      status = step();
      return !status.ok() || finished();
    }));
    SK_RETURN_IF_ERROR(std::move(status));
    SK_RETURN_IF_ERROR(context_.barrier(endpoint_));
    // What might still be under way would show as a signal too many.
    for (int i = 0; i < 50; ++i) SK_RETURN_IF_ERROR(endpoint_.check());
    SK_RETURN_IF_ERROR(context_.barrier(endpoint_));
    reuse_sources();
    if (!unsent_.empty()) return broken("{} sources are not free at the end", unsent_.size());
    return check_totals();
  }

 private:
  uint32_t ranks() const { return context_.spec.ranks; }
  uint64_t messages() const { return context_.spec.numbers[kMessages]; }
  Line& line(uint32_t peer, uint32_t slot) { return lines_[peer * kSlots + slot]; }
  uint64_t slot_offset(uint32_t from, uint32_t slot) const {
    return layout_.workspace_offset() + (from * kSlots + slot) * kSlotBytes;
  }
  // Data signals come first, by sender and slot; then credits, by receiver and slot.
  uint32_t data_signal(uint32_t from, uint32_t slot) const { return from * kSlots + slot; }
  uint32_t credit_signal(uint32_t to, uint32_t slot) const {
    return (ranks() + to) * kSlots + slot;
  }
  uint64_t signal(uint32_t index) const {
    return endpoint_.signals()[index].value.load(std::memory_order_acquire);
  }

  bool finished() {
    if (messages() == 0) return false;
    for (uint32_t peer = 0; peer < ranks(); ++peer) {
      for (uint32_t slot = 0; slot < kSlots; ++slot) {
        if (line(peer, slot).received < messages()) return false;
        if (signal(credit_signal(peer, slot)) < messages()) return false;
      }
    }
    return true;
  }

  Status step() {
    SK_RETURN_IF_ERROR(send(static_cast<uint32_t>(dice_.below(ranks())),
                            static_cast<uint32_t>(dice_.below(kSlots))));
    for (uint32_t peer = 0; peer < ranks(); ++peer) {
      for (uint32_t slot = 0; slot < kSlots; ++slot) SK_RETURN_IF_ERROR(receive(peer, slot));
    }
    return {};
  }

  Status send(uint32_t peer, uint32_t slot) {
    Line& own = line(peer, slot);
    if (messages() != 0 && own.sent == messages()) return {};
    const uint64_t credits = signal(credit_signal(peer, slot));
    if (credits > own.sent) {
      return broken("{} credits for {} messages to rank {}", credits, own.sent, peer);
    }
    if (own.sent > credits) return {};
    Session& session = endpoint_.session(peer);
    const Message message = message_of(context_.spec.seed, context_.rank, peer, slot, own.sent);
    std::vector<unsigned char> source(message.bytes + 8);
    fill(message.content, message.bytes, source.data());
    SK_ASSIGN_OR_RETURN(
        const Sent sent,
        session.put({slot_offset(context_.rank, slot) + message.offset}, source.data(),
                    message.bytes, data_signal(context_.rank, slot), message.add));
    if (sent == Sent::kAgain) {
      endpoint_.progress();
      return {};
    }
    ++own.sent;
    if (sent == Sent::kNow) {
      memset(source.data(), 0xee, message.bytes);  // Ours again on return.
    } else {
      unsent_.push_back({&session, session.taken(), std::move(source)});
    }
    reuse_sources();
    die_if_due();
    return {};
  }

  // Those that are free are written at once.
  void reuse_sources() {
    std::erase_if(unsent_, [](Unsent& unsent) {
      if (unsent.session->sent() < unsent.number) return false;
      memset(unsent.source.data(), 0xee, unsent.source.size());
      return true;
    });
  }

  Status receive(uint32_t peer, uint32_t slot) {
    Line& own = line(peer, slot);
    if (messages() != 0 && own.received == messages()) return {};
    const Message message = message_of(context_.spec.seed, peer, context_.rank, slot, own.received);
    const uint64_t value = signal(data_signal(peer, slot));
    if (value < own.due + message.add) {
      // Only one message is under way: nothing lies between none of it and all of it.
      if (value == own.due) return {};
      return broken("the signal of rank {}'s message {} is {}, not {} or {}", peer, own.received,
                    value, own.due, own.due + message.add);
    }
    own.due += message.add;
    if (value != own.due) return broken("rank {}'s signal is {}, not {}", peer, value, own.due);
    memset(expected_.data(), kPoison, kSlotBytes);
    fill(message.content, message.bytes, expected_.data() + message.offset);
    std::byte* at = endpoint_.segment() + slot_offset(peer, slot);
    if (memcmp(at, expected_.data(), kSlotBytes) != 0) {
      return broken("the bytes of rank {}'s message {} ({} bytes at {}) are not what it sent", peer,
                    own.received, message.bytes, message.offset);
    }
    memset(at, kPoison, kSlotBytes);
    ++own.received;
    return endpoint_.session(peer).post(credit_signal(context_.rank, slot), 1);
  }

  void die_if_due() {
    const uint64_t count = context_.own().progress.fetch_add(1, std::memory_order_release) + 1;
    const auto& numbers = context_.spec.numbers;
    if (context_.spec.processes != 0 && numbers[kVictim] == context_.rank &&
        numbers[kVictimCount] == count) {
      kill(getpid(), SIGKILL);
    }
  }

  Status check_totals() {
    for (uint32_t peer = 0; peer < ranks(); ++peer) {
      for (uint32_t slot = 0; slot < kSlots; ++slot) {
        const uint64_t data = signal(data_signal(peer, slot));
        const uint64_t credits = signal(credit_signal(peer, slot));
        if (data == line(peer, slot).due && credits == messages()) continue;
        return broken("at the end rank {}'s signals are {} and {}, not {} and {}", peer, data,
                      credits, line(peer, slot).due, messages());
      }
    }
    return {};
  }

  RankContext& context_;
  Endpoint& endpoint_;
  const SegmentLayout& layout_;
  Dice dice_;
  std::vector<Line> lines_;
  struct Unsent {
    const Session* session;
    uint64_t number;
    std::vector<unsigned char> source;
  };
  std::vector<Unsent> unsent_;
  std::vector<unsigned char> expected_;
};

}  // namespace

Status traffic(RankContext& context) {
  const uint32_t ranks = context.spec.ranks;
  const SegmentLayout layout = {.world_size = ranks,
                                .signal_count_max = 2 * ranks * kSlots,
                                .workspace_bytes_max = ranks * kSlots * kSlotBytes};
  SK_ASSIGN_OR_RETURN(auto endpoint, context.connect(context.bootstrap, layout));
  SK_RETURN_IF_ERROR(endpoint->commit(layout.workspace_offset(), layout.workspace_bytes_max));
  Status status = Traffic(context, *endpoint).run();
  // A broken promise must end the other ranks too.
  if (status.code() == SK_ERR_INTERNAL) {
    endpoint->abort(AbortCause::kAborted, context.rank, status.message());
  }
  return status;
}

}  // namespace sk::cts
