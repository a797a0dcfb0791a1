#include "transport/stream/outbox.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace sk::stream {
namespace {

constexpr size_t kPiecesAtOnce = 16;
constexpr size_t kBytesAtOnce = 128 << 10;   // About: more leaves the caches in the socket.
constexpr size_t kGatheredBytes = 64 << 10;  // Small things lie together in parts of this size.

}  // namespace

void Outbox::Part::begin_frame(uint32_t add_of_put) {
  add = add_of_put;
  frame_left = std::min(source.size(), kFrameBytesMax);
  header.bytes = frame_left;
  header.add = frame_left == source.size() ? add : 0;
  header_left = sizeof(header);
}

size_t Outbox::Part::pieces(iovec* to) const {
  size_t count = 0;
  const auto add_piece = [&](const std::byte* start, size_t bytes) {
    if (bytes > 0) to[count++] = {const_cast<std::byte*>(start), bytes};
  };
  if (is_put) {
    const auto* whole = reinterpret_cast<const std::byte*>(&header);
    add_piece(whole + sizeof(header) - header_left, header_left);
    add_piece(source.data(), frame_left);
  } else {
    add_piece(own.data() + begin, own.size() - begin);
  }
  return count;
}

size_t Outbox::Part::drop(size_t bytes) {
  if (!is_put) {
    const size_t here = std::min(bytes, own.size() - begin);
    begin += here;
    return here;
  }
  const size_t of_header = std::min(bytes, header_left);
  header_left -= of_header;
  const size_t of_frame = std::min(bytes - of_header, frame_left);
  frame_left -= of_frame;
  source = source.subspan(of_frame);
  if (over() && !source.empty()) {
    header.offset += header.bytes;
    begin_frame(add);
  }
  return of_header + of_frame;
}

void Outbox::copy(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const bool fits = !parts_.empty() && !parts_.back().is_put &&
                    parts_.back().own.size() + bytes.size() <= kGatheredBytes;
  if (!fits) {
    parts_.emplace_back();
    parts_.back().own = std::exchange(spare_, {});
  }
  std::vector<std::byte>& own = parts_.back().own;
  own.insert(own.end(), bytes.begin(), bytes.end());
  copied_bytes_ += bytes.size();
}

void Outbox::put(const FrameHeader& header, std::span<const std::byte> source) {
  if (source.empty()) return copy(std::as_bytes(std::span(&header, 1)));
  Part& part = parts_.emplace_back();
  part.is_put = true;
  part.header = header;
  part.source = source;
  part.begin_frame(header.add);
  ++borrowed_;
}

// What is left of the frame under way.
std::vector<std::byte> Outbox::frame_of(const Part& put) {
  std::array<iovec, 2> pieces;
  const size_t count = put.pieces(pieces.data());
  std::vector<std::byte> bytes;
  for (const iovec& piece : std::span(pieces).first(count)) {
    const auto* start = static_cast<const std::byte*>(piece.iov_base);
    bytes.insert(bytes.end(), start, start + piece.iov_len);
  }
  return bytes;
}

void Outbox::own_last() {
  if (parts_.empty() || !parts_.back().is_put) return;
  const Part& last = parts_.back();
  if (last.source.size() > last.frame_left) return;
  const std::vector<std::byte> rest = frame_of(last);
  parts_.pop_back();
  --borrowed_;
  copy(rest);
}

Result<bool> Outbox::send(Pipe& pipe) {
  while (!parts_.empty() || pipe.holds_output()) {
    std::array<iovec, kPiecesAtOnce> pieces;
    size_t count = 0, offered = 0;
    for (auto part = parts_.begin();
         part != parts_.end() && count + 2 <= pieces.size() && offered < kBytesAtOnce; ++part) {
      const size_t begin = count;
      count += part->pieces(pieces.data() + count);
      for (size_t i = begin; i < count; ++i) offered += pieces[i].iov_len;
      if (part->is_put && part->source.size() > part->frame_left) break;  // It has more frames.
    }
    SK_ASSIGN_OR_RETURN(const size_t taken, pipe.send(std::span(pieces).first(count)));
    drop(taken);
    if (taken < offered || (offered == 0 && pipe.holds_output())) return false;
  }
  return true;
}

void Outbox::drop(size_t bytes) {
  while (bytes > 0) {
    Part& first = parts_.front();
    const size_t here = first.drop(bytes);
    bytes -= here;
    if (!first.is_put) copied_bytes_ -= here;
    if (!first.over()) continue;
    if (first.is_put) {
      --borrowed_;
    } else {
      spare_ = std::move(first.own);
      spare_.clear();
    }
    parts_.pop_front();
  }
}

void Outbox::forget_sources() {
  std::deque<Part> parts = std::exchange(parts_, {});
  borrowed_ = 0;
  copied_bytes_ = 0;
  for (const Part& part : parts) {
    if (!part.is_put) {
      copy(std::span(part.own).subspan(part.begin));
    } else if (part.begun()) {
      copy(frame_of(part));
    }
  }
}

void Outbox::clear() {
  parts_.clear();
  copied_bytes_ = 0;
  borrowed_ = 0;
}

}  // namespace sk::stream
