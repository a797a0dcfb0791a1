// What a rank still has to send to one peer, first in, first out: frames that are copied, and puts,
// whose bytes are read at their place when their turn comes. One thread at a time.
#ifndef SK_TRANSPORT_STREAM_OUTBOX_H_
#define SK_TRANSPORT_STREAM_OUTBOX_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "transport/stream/frame.h"
#include "transport/stream/pipe.h"

namespace sk::stream {

class Outbox {
 public:
  // A put is sent in frames of at most so many bytes, the last of which adds to the signal: where
  // its source is not to be read any more, no more than one of them has to be filled with something
  // else.
  static constexpr size_t kFrameBytesMax = 128 << 10;

  bool empty() const { return parts_.empty(); }
  uint64_t copied_bytes() const { return copied_bytes_; }  // That wait.
  uint32_t borrowed() const { return borrowed_; }          // Sources that are still read.

  void copy(std::span<const std::byte> bytes);
  // `source` is read until borrowed() has come down again.
  void put(const FrameHeader& header, std::span<const std::byte> source);
  // Copies what is left of the last part, if that is a put of one frame: its source is free then.
  void own_last();

  // Sends what the pipe takes; true where nothing is left, in here or in the pipe.
  Result<bool> send(Pipe& pipe);

  // Reads no source any more: puts that have begun end with their frame, the others are dropped.
  void forget_sources();
  void clear();

 private:
  struct Part {
    // Bytes of its own, from `begin` on;
    std::vector<std::byte> own;
    size_t begin = 0;
    // or of a put: what is left of its source, of which the frame under way takes some.
    bool is_put = false;
    FrameHeader header;
    uint32_t add = 0;  // Of its last frame.
    size_t header_left = 0, frame_left = 0;
    std::span<const std::byte> source;

    void begin_frame(uint32_t add);
    bool begun() const { return header_left < sizeof(FrameHeader) || frame_left < header.bytes; }
    // What can be sent next, in at most two pieces.
    size_t pieces(iovec* to) const;
    size_t drop(size_t bytes);  // Returns how many of them it had.
    bool over() const { return is_put ? header_left + frame_left == 0 : begin == own.size(); }
  };
  static std::vector<std::byte> frame_of(const Part& put);
  void drop(size_t bytes);

  std::deque<Part> parts_;
  std::vector<std::byte> spare_;  // So that a steady flow takes no memory.
  uint64_t copied_bytes_ = 0;
  uint32_t borrowed_ = 0;
};

}  // namespace sk::stream

#endif  // SK_TRANSPORT_STREAM_OUTBOX_H_
