// Ranks that have entered different calls, and how they tell each other which.
#include <algorithm>
#include <cstring>

#include "lib/exec/cpu/program.h"
#include "lib/op/mismatch.h"

namespace sk::cpu {

constexpr size_t kWordBytes = sizeof(EntrySlot::words);

// A text as it crosses in entries: its size, then its bytes, each round as many as fit the words.
class Parcel {
 public:
  void reserve() { bytes_.resize(sizeof(uint64_t) + kCallTextMax); }
  void pack(std::string_view text) {
    reserve();  // Without memory the size stays 0: peers count the rounds by what they are told.
    size_ = std::min(text.size(), kCallTextMax);
    memcpy(bytes_.data(), &size_, sizeof(size_));
    memcpy(bytes_.data() + sizeof(size_), text.data(), size_);
  }
  std::string_view text() const { return std::string_view(bytes_).substr(sizeof(size_), size_); }
  uint64_t size() const { return size_; }

  // Of a text of `size` bytes.
  static uint64_t rounds(uint64_t size) { return (sizeof(size) + size - 1) / kWordBytes + 1; }

  // Without memory it is an empty text.
  void write(uint64_t round, EntrySlot& entry) const {
    memset(entry.words, 0, kWordBytes);
    const size_t begin = round * kWordBytes, end = bytes_.empty() ? 0 : sizeof(size_) + size_;
    if (begin >= end) return;  // Others have longer ones.
    memcpy(entry.words, bytes_.data() + begin, std::min(kWordBytes, end - begin));
  }

  // In the order of rounds; what comes behind the end is not of it.
  void read(uint64_t round, const EntrySlot& entry) {
    if (round == 0) size_ = size_in(entry);
    const size_t begin = round * kWordBytes;
    if (begin >= bytes_.size()) return;
    memcpy(bytes_.data() + begin, entry.words, std::min(kWordBytes, bytes_.size() - begin));
  }
  static uint64_t size_in(const EntrySlot& first) {
    return std::min<uint64_t>(first.words[0], kCallTextMax);
  }

 private:
  std::string bytes_;
  uint64_t size_ = 0;
};

// A rank that declines tells the kind of its call and its error; it need not be this rank's call.
Status CpuProgram::declined(uint32_t peer, const EntrySlot& entry) const {
  const OpDesc& op = plan_->op;
  const auto theirs = OpKind(entry.words[0]);
  const auto code = int32_t(entry.words[1]);
  if (code != SK_ERR_NO_MEMORY) {
    return error(
        code, "rank {} cannot take part in {} ({}, which its own sentence explains){}", peer,
        theirs == op.kind() ? describe(op) : std::string(op_kind_name(theirs)), status_name(code),
        theirs == op.kind()
            ? ""
            : fmt::format(", while rank {} called {}", shared_.endpoint.rank(), describe(op)));
  }
  if (theirs == op.kind()) {
    return error(SK_ERR_NO_MEMORY, "rank {} has no memory to take part in {}", peer, describe(op));
  }
  return error(SK_ERR_NO_MEMORY, "rank {} has no memory for its {}, while rank {} called {}", peer,
               op_kind_name(theirs), shared_.endpoint.rank(), describe(op));
}

// Waits for a peer's entry; beyond `deadline_ns` names it.
Status CpuProgram::await_entry(const EntrySlot& slot, uint64_t seq, uint32_t peer,
                               int64_t deadline_ns) {
  Waiter waiter(shared_.endpoint, shared_.spins, /*drives=*/true);
  Awaited awaited(shared_.awaited, shared_.endpoint);
  for (;;) {
    const int64_t left = std::max<int64_t>(deadline_ns - now_ns(), 0);
    Status waited = waiter.wait([&] { return slot.seq.load(std::memory_order_acquire) == seq; },
                                std::min(left, kMismatchLookNs));
    if (!ran_out(waited)) return waited;
    awaited.tell(peer,
                 /*is_long=*/left <= args_->timeout_ns - Allowance::long_ns(args_->timeout_ns));
    SK_RETURN_IF_ERROR(tell_waiting());
    if (left <= kMismatchLookNs) return give_up(peer, plan_->op);
  }
}

// Every one of `peers` does the same with this rank among its own: this rank's entries follow the
// one at args_->seq, theirs the one at `their_seq` in lane `theirs`. Nobody writes a round before
// having read the one before, so that two slots are enough here as well. Takes no memory: without
// some for `own` and `texts` (then there are none) the rounds are the same.
Status CpuProgram::exchange(std::span<const uint32_t> peers, EntryLane theirs, uint64_t their_seq,
                            const Parcel& own, std::span<Parcel> texts, uint64_t& rounds) {
  Endpoint& endpoint = shared_.endpoint;
  const int64_t deadline_ns = now_ns() + args_->timeout_ns;
  EntrySlot entry{};
  entry.fingerprint = fingerprint_;
  rounds = Parcel::rounds(own.size());
  for (uint64_t round = 0; round < rounds; ++round) {
    own.write(round, entry);
    SK_RETURN_IF_ERROR(send(entry, args_->seq + 1 + round, peers));
    for (size_t i = 0; i < peers.size(); ++i) {
      const uint64_t seq = their_seq + 1 + round;
      const EntrySlot& slot = endpoint.entry(peers[i], theirs, seq);
      SK_RETURN_IF_ERROR(await_entry(slot, seq, peers[i], deadline_ns));
      if (round == 0) rounds = std::max(rounds, Parcel::rounds(Parcel::size_in(slot)));
      if (!texts.empty()) texts[i].read(round, slot);
    }
  }
  return {};
}

// Why the entries differ; the same sentence at all ranks, for all of them have all entries: ranks
// that have met along a tree send them now. That memory runs out ends no communicator here: all
// ranks have refused the call.
Status CpuProgram::desync() {
  const Endpoint& endpoint = shared_.endpoint;
  if (along_tree()) {
    SK_RETURN_IF_ERROR(tell_each(entry_, part_->peers));
    const int64_t deadline_ns = now_ns() + args_->timeout_ns;
    for (const uint32_t peer : part_->peers) {
      const EntrySlot& slot = endpoint.entry(peer, args_->lane, args_->seq);
      SK_RETURN_IF_ERROR(await_entry(slot, args_->seq, peer, deadline_ns));
    }
  }
  const auto entry_of = [&](uint32_t peer) -> const EntrySlot& {
    return endpoint.entry(peer, args_->lane, args_->seq);
  };
  for (const uint32_t peer : part_->peers) {
    if (entry_of(peer).fingerprint != 0) continue;
    refusal_.refused = true;
    return declined(peer, entry_of(peer));
  }
  Parcel own;
  std::vector<Parcel> texts;
  std::vector<RankCall> calls;
  Status able = caught([&]() -> Status {
    own.pack(call_text(plan_->op));
    calls.push_back({endpoint.rank(), fingerprint_, std::string(own.text())});
    for (const uint32_t peer : part_->peers)
      calls.push_back({peer, entry_of(peer).fingerprint, ""});
    std::vector<Parcel> room(part_->peers.size());
    for (Parcel& parcel : room) parcel.reserve();
    texts = std::move(room);
    return {};
  });
  uint64_t rounds = 0;
  SK_RETURN_IF_ERROR(exchange(part_->peers, args_->lane, args_->seq, own, texts, rounds));
  refusal_ = {.refused = true, .seqs_taken = rounds};
  SK_RETURN_IF_ERROR(std::move(able));
  for (size_t i = 0; i < texts.size(); ++i) calls[1 + i].text = texts[i].text();
  return Status(SK_ERR_DESYNC, explain_mismatch(std::move(calls)));
}

// A peer that has entered a call of the other lane, and not this one before, waits for this rank
// there, and this rank for the peer here: neither will ever come. That the entry awaited is not
// here says nothing by itself: it may still be under way while a later one has arrived. The peer
// finds the same, whence it tells of its call there; once this rank has entered, for it could not
// before. Of the first thread alone.
Status CpuProgram::find_mismatch() {
  Endpoint& endpoint = shared_.endpoint;
  const EntryLane other = other_lane();
  for (const uint32_t peer : part_->peers) {
    const uint64_t next = last_entry(endpoint.session(peer), other) + 1;
    const EntrySlot& theirs = endpoint.entry(peer, other, next);
    const EntrySlot& awaited = endpoint.entry(peer, args_->lane, args_->seq);
    if (last_entry(endpoint.session(peer), args_->lane) < args_->seq) continue;
    if (theirs.seq.load(std::memory_order_acquire) != next) continue;
    if (awaited.seq.load(std::memory_order_acquire) == args_->seq) continue;
    if (theirs.other_lane >= args_->seq) continue;
    // That it finds the same: along a tree there has been no entry for it.
    if (along_tree()) SK_RETURN_IF_ERROR(tell_once(entry_, peer));
    std::string called;
    if (theirs.fingerprint == 0) {  // It has declined, and looks for nothing more.
      called = op_kind_name(OpKind(theirs.words[0]));
    } else {
      Parcel own, text;
      uint64_t rounds = 0;
      own.pack(call_text(plan_->op));
      text.reserve();
      SK_RETURN_IF_ERROR(exchange({&peer, 1}, other, next, own, {&text, 1}, rounds));
      called = described(std::string(text.text()));
    }
    Status mismatch = error(SK_ERR_DESYNC, "rank {} called {} while rank {} called {}",
                            endpoint.rank(), describe(plan_->op), peer, called);
    endpoint.abort(AbortCause::kAborted, endpoint.rank(), mismatch.message());
    return mismatch;
  }
  return {};
}

}  // namespace sk::cpu
