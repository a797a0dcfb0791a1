// What comes from one peer, stored where it belongs as it comes. One thread at a time.
#ifndef SK_TRANSPORT_STREAM_INBOX_H_
#define SK_TRANSPORT_STREAM_INBOX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/stream/frame.h"
#include "transport/stream/pipe.h"

namespace sk::stream {

class Inbox {
 public:
  // `own`: the segment and the control block of the rank that receives.
  Inbox(uint32_t peer, const MappedView& own, const SegmentLayout& layout);

  // Takes what has come, some `budget` bytes at most; true where a wait may look for what was
  // stored. An error: the stream is broken, or the peer sent what no rank sends; nothing of such a
  // frame has been stored.
  Result<bool> receive(Pipe& pipe, size_t budget);

  // What comes from here on is taken, and stored nowhere.
  void discard();

  // Of frames that are addressed to no memory.
  uint32_t abort_word() const { return abort_word_; }  // 0: none. The first one.
  const std::string& reason() const { return reason_; }
  bool left() const { return left_; }
  uint64_t entered() const { return entered_; }  // As the peer last said.
  uint32_t awaited() const { return awaited_; }  // Likewise, as RankHeader has it.
  // Whether the peer has asked since this was last asked; what it has told since then.
  bool take_asked() { return std::exchange(asked_, false); }
  std::vector<RankLine> take_told() { return std::exchange(told_, {}); }
  bool inside_frame() const { return put_left_ > 0 || begin_ < end_; }

 private:
  Result<size_t> receive_put(Pipe& pipe, size_t budget, bool* all);
  Status take_frames();
  Result<bool> take_frame();  // False: it has not come whole.
  Status check(const FrameHeader& header) const;
  Status take_lines(const std::byte* lines, size_t bytes);
  std::span<std::byte> place_of_put(uint64_t bytes);
  void put_bytes_came(size_t bytes);
  void add(const FrameHeader& header);
  void enter(const FrameHeader& header, const EntryFrame& entry);

  const uint32_t peer_;
  const MappedView own_;
  const SegmentLayout layout_;
  // From the first bytes on, for most pairs of large worlds never talk; pages that little traffic
  // does not need are never touched.
  std::unique_ptr<std::byte[]> buffer_;
  size_t begin_ = 0, end_ = 0;   // Of it, what has not been taken.
  FrameHeader put_;              // Whose bytes are coming,
  std::byte* put_to_ = nullptr;  // to here,
  uint64_t put_left_ = 0;        // so many.
  bool stored_ = false;
  std::vector<std::byte> discarded_;  // Not empty: where bytes of puts go instead.
  uint32_t abort_word_ = 0;
  std::string reason_;
  bool left_ = false;
  uint64_t entered_ = 0;
  uint32_t awaited_ = 0;
  bool asked_ = false;
  std::vector<RankLine> told_;
};

}  // namespace sk::stream

#endif  // SK_TRANSPORT_STREAM_INBOX_H_
