#include "lib/control/framing.h"

#include <algorithm>

#include "lib/control/codec.h"

namespace sk::control {
namespace {

constexpr uint64_t kFragmentBytes = kFrameBytesMax / 2;
constexpr size_t kLengthBytes = 4;

void append_frame(const std::string& payload, std::string& out) {
  const auto length = static_cast<uint32_t>(payload.size());
  for (unsigned shift = 0; shift < 32; shift += 8)
    out.push_back(static_cast<char>(length >> shift & 0xff));
  out += payload;
}

uint32_t read_length(const char* bytes) {
  uint32_t length = 0;
  for (unsigned i = 0; i < kLengthBytes; ++i)
    length |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return length;
}

}  // namespace

Status append_frames(const Message& message, std::string& out) {
  const std::string payload = encode(message);
  if (payload.size() > kMessageBytesMax)
    return error(SK_ERR_OUT_OF_RANGE, "message of {} bytes; the limit is {}", payload.size(),
                 kMessageBytesMax);
  if (payload.size() <= kFrameBytesMax) {
    append_frame(payload, out);
    return {};
  }
  for (uint64_t offset = 0; offset < payload.size(); offset += kFragmentBytes)
    append_frame(encode(Fragment{payload.size(), offset, payload.substr(offset, kFragmentBytes)}),
                 out);
  return {};
}

Result<std::optional<Message>> FrameReader::next() {
  while (true) {
    const size_t available = buffer_.size() - begin_;
    const uint32_t length = available < kLengthBytes ? 0 : read_length(buffer_.data() + begin_);
    // Checked before the rest arrives: a hostile length must not make us gather bytes for it.
    if (length > kFrameBytesMax)
      return error(SK_ERR_TRANSPORT, "frame of {} bytes; the limit is {}", length, kFrameBytesMax);
    if (available < kLengthBytes || available - kLengthBytes < length) {
      buffer_.erase(0, begin_);
      begin_ = 0;
      return std::optional<Message>();
    }
    SK_ASSIGN_OR_RETURN(Message message, decode({buffer_.data() + begin_ + kLengthBytes, length}));
    begin_ += kLengthBytes + length;
    auto* fragment = std::get_if<Fragment>(&message);
    if (fragment == nullptr) {
      if (partial_total_ != 0)
        return error(SK_ERR_TRANSPORT, "a message of {} bytes broke off after {}", partial_total_,
                     partial_.size());
      return std::optional<Message>(std::move(message));
    }
    SK_ASSIGN_OR_RETURN(std::optional<Message> whole, take_fragment(std::move(*fragment)));
    if (whole) return whole;
  }
}

Result<std::optional<Message>> FrameReader::take_fragment(Fragment fragment) {
  if (fragment.offset != partial_.size() || fragment.data.empty())
    return error(SK_ERR_TRANSPORT, "fragment at byte {} of a message that has {}", fragment.offset,
                 partial_.size());
  if (partial_total_ == 0) partial_total_ = fragment.total_bytes;
  if (fragment.total_bytes != partial_total_ || partial_total_ > kMessageBytesMax ||
      fragment.data.size() > partial_total_ - partial_.size())
    return error(SK_ERR_TRANSPORT, "fragment of a message of {} bytes; the limit is {}",
                 fragment.total_bytes, kMessageBytesMax);
  partial_ += fragment.data;
  if (partial_.size() < partial_total_) return std::optional<Message>();
  const std::string whole = std::exchange(partial_, {});
  partial_total_ = 0;
  SK_ASSIGN_OR_RETURN(Message message, decode(whole));
  if (std::holds_alternative<Fragment>(message))
    return error(SK_ERR_TRANSPORT, "a fragment inside a fragment");
  return std::optional<Message>(std::move(message));
}

}  // namespace sk::control
