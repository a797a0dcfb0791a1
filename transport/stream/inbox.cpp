#include "transport/stream/inbox.h"

#include <algorithm>
#include <cstring>

namespace sk::stream {
namespace {

constexpr size_t kBufferBytes = 64 << 10;
// A put of so much is received at its place, and less in the buffer, with what follows it.
constexpr uint64_t kDirectBytes = 8 << 10;
// Of what follows such a put, which comes with its end; the rest of the next one has its own place.
constexpr size_t kBehindBytes = 512;

}  // namespace

Inbox::Inbox(uint32_t peer, const MappedView& own, const SegmentLayout& layout)
    : peer_(peer), own_(own), layout_(layout) {}

Result<bool> Inbox::receive(Pipe& pipe, size_t budget) {
  stored_ = false;
  if (!buffer_) buffer_ = std::make_unique_for_overwrite<std::byte[]>(kBufferBytes);
  // Less than there was room for is all that was there: to ask once more costs a call in vain, on
  // the way of what somebody waits for.
  for (bool all = false; !all && budget > 0;) {
    size_t came = 0;
    if (put_left_ > 0 && put_.bytes >= kDirectBytes && begin_ == end_) {
      SK_ASSIGN_OR_RETURN(came, receive_put(pipe, budget, &all));
    } else {
      if (begin_ > 0) memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
      const std::span room(buffer_.get() + end_, kBufferBytes - end_);
      SK_ASSIGN_OR_RETURN(came, pipe.receive(room));
      all = came < room.size();
      end_ += came;
      SK_RETURN_IF_ERROR(take_frames());
    }
    budget -= std::min(came, budget);
  }
  return stored_;
}

// Straight to its place; the buffer is empty.
Result<size_t> Inbox::receive_put(Pipe& pipe, size_t budget, bool* all) {
  const std::span place = place_of_put(std::min<uint64_t>(put_left_, budget));
  const bool ends = place.size() == put_left_;
  begin_ = end_ = 0;
  const std::span behind(buffer_.get(), ends ? kBehindBytes : 0);
  SK_ASSIGN_OR_RETURN(const size_t came, pipe.receive(place, behind));
  *all = came < place.size() + behind.size();
  put_bytes_came(std::min(came, place.size()));
  if (came <= place.size()) return came;
  end_ = came - place.size();
  SK_RETURN_IF_ERROR(take_frames());
  return came;
}

Status Inbox::take_frames() {
  for (;;) {
    if (put_left_ > 0) {
      const std::span place = place_of_put(std::min<uint64_t>(put_left_, end_ - begin_));
      if (place.empty()) return {};
      memcpy(place.data(), buffer_.get() + begin_, place.size());
      begin_ += place.size();
      put_bytes_came(place.size());
    } else {
      SK_ASSIGN_OR_RETURN(const bool whole, take_frame());
      if (!whole) return {};
    }
  }
}

Result<bool> Inbox::take_frame() {
  FrameHeader header;
  if (end_ - begin_ < sizeof(header)) return false;
  memcpy(&header, buffer_.get() + begin_, sizeof(header));
  SK_RETURN_IF_ERROR(check(header));
  const bool has_text = header.kind == FrameKind::kAbort || header.kind == FrameKind::kTell;
  const size_t more = header.kind == FrameKind::kEnter ? sizeof(EntryFrame)
                      : has_text                       ? header.add
                                                       : 0;
  if (end_ - begin_ < sizeof(header) + more) return false;
  const std::byte* rest = buffer_.get() + begin_ + sizeof(header);
  switch (header.kind) {
    case FrameKind::kPut:
      put_ = header;
      put_to_ = own_.segment + header.offset;
      put_left_ = header.bytes;
      if (put_left_ == 0) add(header);
      break;
    case FrameKind::kPost:
      add(header);
      break;
    case FrameKind::kEnter: {
      EntryFrame entry;
      memcpy(&entry, rest, sizeof(entry));
      enter(header, entry);
      break;
    }
    case FrameKind::kAbort:
      if (abort_word_ != 0) break;
      reason_.assign(reinterpret_cast<const char*>(rest), more);
      abort_word_ = header.signal;
      stored_ = true;
      break;
    case FrameKind::kLeave:
      left_ = true;
      entered_ = std::max(entered_, header.offset);
      stored_ = true;
      break;
    case FrameKind::kAwait:
      awaited_ = header.signal;
      break;
    case FrameKind::kAsk:
      asked_ = true;
      break;
    case FrameKind::kTell:
      SK_RETURN_IF_ERROR(take_lines(rest, more));
      break;
  }
  begin_ += sizeof(header) + more;  // Last: where memory runs out before, it is taken again.
  return true;
}

Status Inbox::take_lines(const std::byte* lines, size_t bytes) {
  std::vector<RankLine> told(bytes / sizeof(RankLine));
  memcpy(told.data(), lines, bytes);
  for (const RankLine& line : told) {
    if (line.rank < layout_.world_size && line.awaited <= layout_.world_size) continue;
    return error(SK_ERR_TRANSPORT, "rank {} sent what no rank sends: what rank {} of {} is at",
                 peer_, line.rank, layout_.world_size);
  }
  told_.insert(told_.end(), told.begin(), told.end());
  return {};
}

// Whatever it would touch is looked at before anything is touched.
Status Inbox::check(const FrameHeader& header) const {
  const auto bad = [&](const std::string& why) {
    return error(SK_ERR_TRANSPORT, "rank {} sent what no rank sends: {}", peer_, why);
  };
  if (left_) return bad("a frame behind its last one");
  switch (header.kind) {
    case FrameKind::kPut:
      if (header.bytes > layout_.bytes() || header.offset > layout_.bytes() - header.bytes) {
        return bad(fmt::format("{} bytes for offset {} of a segment of {}", header.bytes,
                               header.offset, layout_.bytes()));
      }
      [[fallthrough]];
    case FrameKind::kPost:
      if (header.signal < layout_.signal_count_max) return {};
      return bad(fmt::format("signal {} of {}", header.signal, layout_.signal_count_max));
    case FrameKind::kEnter:
      if (header.lane < kEntryLaneCount && header.offset != 0) return {};
      return bad(fmt::format("entry {} in lane {}", header.offset, header.lane));
    case FrameKind::kAbort: {
      const auto cause = uint32_t(abort_cause(header.signal));
      if (cause >= uint32_t(AbortCause::kPeerLost) && cause <= uint32_t(AbortCause::kLinkLost) &&
          abort_rank(header.signal) < layout_.world_size &&
          header.add <= RankHeader::kReasonBytesMax)
        return {};
      return bad(fmt::format("an abort word {:#x} with {} bytes", header.signal, header.add));
    }
    case FrameKind::kLeave:
      return {};
    case FrameKind::kAwait:
      if (header.signal <= layout_.world_size) return {};
      return bad(fmt::format("a wait for rank {} of {}", header.signal - 1, layout_.world_size));
    case FrameKind::kAsk:
      return {};
    case FrameKind::kTell:
      if (header.add % sizeof(RankLine) == 0 && header.add <= kRankLinesMax * sizeof(RankLine))
        return {};
      return bad(fmt::format("{} bytes of what ranks are at", header.add));
  }
  return bad(fmt::format("a frame of kind {}", uint32_t(header.kind)));
}

void Inbox::discard() {
  if (discarded_.empty()) discarded_.resize(kBufferBytes);
}

// For the next bytes of the put that is coming, at most so many.
std::span<std::byte> Inbox::place_of_put(uint64_t bytes) {
  if (!discarded_.empty())
    return std::span(discarded_).first(std::min<size_t>(bytes, discarded_.size()));
  return {put_to_, size_t(bytes)};
}

void Inbox::put_bytes_came(size_t bytes) {
  put_to_ += bytes;
  put_left_ -= bytes;
  if (put_left_ == 0) add(put_);
}

void Inbox::add(const FrameHeader& header) {
  if (!discarded_.empty()) return;
  own_.control.signals[header.signal].value.fetch_add(header.add, std::memory_order_release);
  stored_ = true;
}

void Inbox::enter(const FrameHeader& header, const EntryFrame& entry) {
  if (!discarded_.empty()) return;
  EntrySlot& slot =
      own_.control.entries[(peer_ * kEntryLaneCount + header.lane) * 2 + (header.offset & 1)];
  slot.fingerprint = entry.fingerprint;
  slot.other_lane = entry.other_lane;
  memcpy(slot.words, entry.words, sizeof(slot.words));
  slot.seq.store(header.offset, std::memory_order_release);
  entered_ = std::max(entered_, entry.entered);
  stored_ = true;
}

}  // namespace sk::stream
