#include "transport/stream/channel.h"

#include <algorithm>
#include <array>
#include <utility>

namespace sk::stream {
namespace {

std::span<const std::byte> bytes_of(const auto& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

Sent Channel::put(PutTarget dst, std::span<const std::byte> bytes, uint32_t signal, uint32_t add) {
  const bool copies = bytes.size() <= kCopiedBytes && outbox_.copied_bytes() < kCopiedBytesMax;
  if (can_put() && !copies && outbox_.borrowed() >= kBorrowedMax) return Sent::kAgain;
  const uint64_t number = taken_.load(std::memory_order_relaxed) + 1;
  taken_.store(number, std::memory_order_relaxed);
  if (can_put()) {
    const bool first = drained();
    const FrameHeader header = {
        .kind = FrameKind::kPut, .signal = signal, .add = add, .offset = dst.offset};
    outbox_.put(header, bytes);
    if (first) send();
    if (copies) outbox_.own_last();
    if (outbox_.borrowed() > borrowed_puts_.size()) borrowed_puts_.push_back(number);
  }
  note_sent();
  return borrowed_puts_.empty() || borrowed_puts_.back() != number ? Sent::kNow : Sent::kLater;
}

void Channel::connect(std::unique_ptr<Pipe> pipe) {
  pipe_ = std::move(pipe);
  connected_.store(true, std::memory_order_release);
}

void Channel::give_up(Status why) {
  if (!open()) return;
  ending_ = std::move(why);
  send_no_more({});
}

// Asked at once where nothing waits, and by pump() else.
void Channel::send() {
  Result<bool> all = outbox_.send(*pipe_);
  if (!all.ok()) send_no_more(std::move(all.status()));
}

void Channel::post(uint32_t signal, uint32_t add) {
  if (!can_send()) return;
  const bool first = drained();
  outbox_.copy(bytes_of(FrameHeader{.kind = FrameKind::kPost, .signal = signal, .add = add}));
  if (first) send();
}

void Channel::enter(const EntrySlot& entry, EntryLane lane, uint64_t seq) {
  if (!can_send()) return;
  const bool first = drained();
  EntryFrame frame = {.fingerprint = entry.fingerprint, .other_lane = entry.other_lane};
  std::copy(std::begin(entry.words), std::end(entry.words), frame.words);
  frame.entered = own_.control.header->entered.load(std::memory_order_relaxed);
  outbox_.copy(
      bytes_of(FrameHeader{.kind = FrameKind::kEnter, .lane = uint8_t(lane), .offset = seq}));
  outbox_.copy(bytes_of(frame));
  if (first) send();
}

void Channel::tell_abort(uint32_t word, const std::string& reason) {
  if (!connected() || (!can_send() && !silent_)) return;
  const auto text = std::as_bytes(std::span(reason))
                        .first(std::min<size_t>(reason.size(), RankHeader::kReasonBytesMax));
  outbox_.copy(bytes_of(
      FrameHeader{.kind = FrameKind::kAbort, .signal = word, .add = uint32_t(text.size())}));
  outbox_.copy(text);
  if (!std::exchange(silent_, false)) return;
  (void)outbox_.send(*pipe_);
  outbox_.clear();
}

void Channel::tell_awaited(uint32_t word) {
  if (!connected() || !can_send()) return;
  outbox_.copy(bytes_of(FrameHeader{.kind = FrameKind::kAwait, .signal = word}));
}

void Channel::ask() {
  if (!connected() || !can_send()) return;
  outbox_.copy(bytes_of(FrameHeader{.kind = FrameKind::kAsk}));
}

void Channel::tell(std::span<const RankLine> lines) {
  if (!connected() || !can_send()) return;
  while (!lines.empty()) {
    const auto some = lines.first(std::min(lines.size(), kRankLinesMax));
    outbox_.copy(
        bytes_of(FrameHeader{.kind = FrameKind::kTell, .add = uint32_t(some.size_bytes())}));
    outbox_.copy(std::as_bytes(some));
    lines = lines.subspan(some.size());
  }
}

void Channel::leave() {
  if (!connected() || !can_send()) return;
  const uint64_t entered = own_.control.header->entered.load(std::memory_order_relaxed);
  outbox_.copy(bytes_of(FrameHeader{.kind = FrameKind::kLeave, .offset = entered}));
}

bool Channel::pump(size_t budget) {
  if (!connected() || !open()) return false;
  if (wants_room()) {
    send();
    note_sent();
  }
  Result<bool> stored = inbox_.receive(*pipe_, budget);
  peer_entered_.store(inbox_.entered(), std::memory_order_release);
  // Who has left reads nothing any more, and its host would answer by forgetting what it has sent.
  if (inbox_.left() && can_send()) send_no_more(Status(SK_ERR_PEER_LOST, "it has left"));
  if (stored.ok() && !pipe_->ended()) return *stored;
  ending_ = !unsendable_.ok() ? std::move(unsendable_)
            : !stored.ok()    ? std::move(stored.status())
                              : Status(SK_ERR_PEER_LOST, "its end is closed");
  send_no_more({});
  return true;
}

// What has come is still heard, for it may say why: that the peer has left, above all. No source is
// read any more: whoever waits for one goes on, and learns the rest from check().
void Channel::send_no_more(Status why) {
  unsendable_ = std::move(why);
  outbox_.clear();
  note_sent();
}

void Channel::look_after() {
  if (!open()) return;
  ending_ = pipe_->look_after();
  if (open()) return;
  silent_ = unsendable_.ok() && drained();
  send_no_more({});
}

void Channel::forget_memory() {
  forgotten_ = true;
  if (connected()) {
    outbox_.forget_sources();
  } else {
    outbox_.clear();  // Nothing of it is worth a stream any more.
  }
  inbox_.discard();
  note_sent();
}

void Channel::note_sent() {
  while (borrowed_puts_.size() > outbox_.borrowed()) borrowed_puts_.pop_front();
  const uint64_t taken = taken_.load(std::memory_order_relaxed);
  sent_.store(borrowed_puts_.empty() ? taken : borrowed_puts_.front() - 1,
              std::memory_order_release);
}

}  // namespace sk::stream
