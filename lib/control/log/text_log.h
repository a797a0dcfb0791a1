// All that one rank printed in one cell, as it came: both streams in their order, escapes and all.
//
// Up to `kept_bytes` nothing is lost. Beyond, the first and the last half stay, and the text says
// between them how much is missing.
#ifndef SK_LIB_CONTROL_LOG_TEXT_LOG_H_
#define SK_LIB_CONTROL_LOG_TEXT_LOG_H_

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "lib/control/log/chunks.h"

namespace sk::control {

class TextLog {
 public:
  // `chunks` outlives the log.
  TextLog(Chunks& chunks, uint64_t kept_bytes);
  ~TextLog();
  TextLog(const TextLog&) = delete;
  TextLog& operator=(const TextLog&) = delete;

  void append(std::string_view text);

  // Of what can be read, the sentence about what is missing included.
  uint64_t size() const;
  // Bytes [offset, offset + limit) of it, as far as it goes.
  Result<std::string> read(uint64_t offset, uint64_t limit) const;
  uint64_t memory_bytes() const { return open_.capacity() + 64 * tail_.size() + 8 * head_.size(); }

 private:
  struct Chunk {
    uint32_t id;
    uint64_t lines;
  };
  void put_open();
  uint32_t take_last_of_head();
  void drop_oldest_of_tail();
  std::string note() const;

  Chunks& chunks_;
  const uint64_t half_chunks_;
  std::vector<uint32_t> head_;
  std::deque<Chunk> tail_;
  std::string open_;  // Less than a chunk.
  bool head_full_ = false;
  uint64_t elided_bytes_ = 0;
  uint64_t elided_lines_ = 0;
};

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_LOG_TEXT_LOG_H_
