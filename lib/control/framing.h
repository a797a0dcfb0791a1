// Frames: how messages travel over a byte stream.
//
// A frame is a little-endian u32 length and that many bytes of one encoded Message, at most
// kFrameBytesMax. A larger message travels as consecutive Fragment frames, at most kMessageBytesMax
// together. Pure: bytes in, messages out.
#ifndef SK_LIB_CONTROL_FRAMING_H_
#define SK_LIB_CONTROL_FRAMING_H_

#include <optional>
#include <span>
#include <string>

#include "lib/base/status.h"
#include "lib/control/message.h"

namespace sk::control {

inline constexpr uint32_t kFrameBytesMax = 1u << 20;
inline constexpr uint64_t kMessageBytesMax = 80ull << 20;  // 64 MiB of a user's bytes, and more.

// Appends the frames of `message` to `out`. SK_ERR_OUT_OF_RANGE, and `out` as it was, when the
// message is above kMessageBytesMax.
Status append_frames(const Message& message, std::string& out);

// Takes the stream apart. After an error the stream is broken for good: close it.
class FrameReader {
 public:
  void feed(std::span<const char> bytes) { buffer_.append(bytes.data(), bytes.size()); }

  // The next whole message, or nothing yet.
  Result<std::optional<Message>> next();

 private:
  Result<std::optional<Message>> take_fragment(Fragment fragment);

  std::string buffer_;
  size_t begin_ = 0;  // Bytes of buffer_ already taken.
  std::string partial_;
  uint64_t partial_total_ = 0;  // 0: no fragmented message is open.
};

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_FRAMING_H_
