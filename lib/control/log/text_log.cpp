#include "lib/control/log/text_log.h"

#include <algorithm>

#include "lib/control/text.h"

namespace sk::control {

TextLog::TextLog(Chunks& chunks, uint64_t kept_bytes)
    : chunks_(chunks), half_chunks_(std::max<uint64_t>(1, kept_bytes / 2 / kChunkBytes)) {}

TextLog::~TextLog() {
  for (uint32_t id : head_) chunks_.free(id);
  for (const Chunk& chunk : tail_) chunks_.free(chunk.id);
}

void TextLog::append(std::string_view text) {
  while (!text.empty()) {
    const size_t taken = std::min(text.size(), kChunkBytes - open_.size());
    open_ += text.substr(0, taken);
    text.remove_prefix(taken);
    if (open_.size() == kChunkBytes) put_open();
  }
}

void TextLog::put_open() {
  const auto lines = static_cast<uint64_t>(std::count(open_.begin(), open_.end(), '\n'));
  head_full_ = head_full_ || head_.size() == half_chunks_;
  if (head_full_ && tail_.size() == half_chunks_) drop_oldest_of_tail();
  auto id = chunks_.put(open_);
  if (!id.ok() && (!tail_.empty() || head_.size() > 1)) {
    // No room for more: the newest is worth more than what is in the middle.
    if (tail_.empty()) tail_.push_back({take_last_of_head(), 0});
    drop_oldest_of_tail();
    id = chunks_.put(open_);
  }
  if (id.ok() && !head_full_) {
    head_.push_back(*id);
  } else if (id.ok()) {
    tail_.push_back({*id, lines});
  } else {
    head_full_ = true;
    elided_bytes_ += open_.size();
    elided_lines_ += lines;
  }
  open_.clear();
}

uint32_t TextLog::take_last_of_head() {
  const uint32_t id = head_.back();
  head_.pop_back();
  head_full_ = true;
  auto bytes = chunks_.get(id);
  if (bytes.ok())
    elided_lines_ += static_cast<uint64_t>(std::count(bytes->begin(), bytes->end(), '\n'));
  return id;
}

void TextLog::drop_oldest_of_tail() {
  chunks_.free(tail_.front().id);
  elided_bytes_ += kChunkBytes;
  elided_lines_ += tail_.front().lines;
  tail_.pop_front();
}

std::string TextLog::note() const {
  if (elided_bytes_ == 0) return "";
  return "\n… " + grouped(elided_lines_) + " lines (" + grouped(elided_bytes_) +
         " bytes) were not kept …\n";
}

uint64_t TextLog::size() const {
  return (head_.size() + tail_.size()) * kChunkBytes + note().size() + open_.size();
}

Result<std::string> TextLog::read(uint64_t offset, uint64_t limit) const {
  std::string out;
  uint64_t at = 0;  // Where the next part begins.
  const auto wanted = [&](uint64_t bytes) {
    return at < offset + limit && at + bytes > offset && out.size() < limit;
  };
  const auto take = [&](std::string_view part) {
    if (wanted(part.size()))
      out += part.substr(offset > at ? offset - at : 0).substr(0, limit - out.size());
    at += part.size();
  };
  const auto take_chunk = [&](uint32_t id) -> Status {
    if (!wanted(kChunkBytes)) {
      at += kChunkBytes;
      return {};
    }
    SK_ASSIGN_OR_RETURN(const std::string bytes, chunks_.get(id));
    take(bytes);
    return {};
  };
  for (uint32_t id : head_) SK_RETURN_IF_ERROR(take_chunk(id));
  take(note());
  for (const Chunk& chunk : tail_) SK_RETURN_IF_ERROR(take_chunk(chunk.id));
  take(open_);
  return out;
}

}  // namespace sk::control
