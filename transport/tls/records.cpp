#include "transport/tls/records.h"

#include <algorithm>
#include <cstring>

namespace sk::tls {

std::span<const std::byte> Parts::front() {
  while (!parts_.empty() && parts_.front().iov_len == given_) {
    parts_ = parts_.subspan(1);
    given_ = 0;
  }
  if (parts_.empty()) return {};
  const auto* const bytes = static_cast<const std::byte*>(parts_.front().iov_base);
  return {bytes + given_, parts_.front().iov_len - given_};
}

std::span<const std::byte> Parts::next(Gathered& room) {
  const std::span<const std::byte> first = front();
  if (first.size() >= room.size() || parts_.size() <= 1) {
    const std::span<const std::byte> own = first.first(std::min(first.size(), room.size()));
    given_ += own.size();
    return own;
  }
  size_t size = 0;
  while (size < room.size()) {
    const std::span<const std::byte> part = front();
    if (part.empty()) break;
    const size_t copied = std::min(part.size(), room.size() - size);
    memcpy(&room[size], part.data(), copied);
    size += copied;
    given_ += copied;
  }
  return std::span(room).first(size);
}

}  // namespace sk::tls
