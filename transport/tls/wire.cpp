#include "transport/tls/wire.h"

#include <algorithm>
#include <cstring>

namespace sk::tls {

bool Outgoing::append(std::span<const std::byte> bytes) {
  if (bytes.size() > room()) return false;
  if (bytes.empty()) return true;
  const size_t at = (begin_ + size_) % kBytes;
  const size_t first = std::min(bytes.size(), kBytes - at);
  memcpy(&bytes_[at], bytes.data(), first);
  if (first < bytes.size()) memcpy(&bytes_[0], &bytes[first], bytes.size() - first);
  size_ += bytes.size();
  return true;
}

std::span<const iovec> Outgoing::parts(std::array<iovec, 2>& room) const {
  const size_t first = std::min(size_, kBytes - begin_);
  room = {iovec{.iov_base = &bytes_[begin_], .iov_len = first},
          iovec{.iov_base = &bytes_[0], .iov_len = size_ - first}};
  return {room.data(), size_t{first < size_ ? 2U : 1U}};
}

void Outgoing::consume(size_t bytes) {
  size_ -= bytes;
  // From the front again, so that little traffic touches few pages.
  begin_ = size_ == 0 ? 0 : (begin_ + bytes) % kBytes;
}

std::span<std::byte> Incoming::room() {
  if (begin_ > 0) {
    memmove(&bytes_[0], &bytes_[begin_], size());
    end_ -= begin_;
    begin_ = 0;
  }
  return {&bytes_[end_], kBytes - end_};
}

bool Incoming::has_record() const {
  if (in_record_ > 0) return true;
  if (size() < kHeaderBytes) return false;
  const auto at = [&](size_t i) { return std::to_integer<size_t>(bytes_[begin_ + i]); };
  const size_t whole = kHeaderBytes + at(3) * 256 + at(4);
  // OpenSSL says what is wrong with a header, without a wait for bytes that may never come.
  const bool none = at(0) < 20 || at(0) > 23 || at(1) != 3 || whole > kSealedBytesMax;
  return none || size() >= whole;
}

size_t Incoming::take(std::span<std::byte> to) {
  if (in_record_ == 0) {
    if (!has_record()) return 0;
    const auto at = [&](size_t i) { return std::to_integer<size_t>(bytes_[begin_ + i]); };
    in_record_ = std::min(kHeaderBytes + at(3) * 256 + at(4), size());
  }
  const size_t taken = std::min(to.size(), in_record_);
  if (taken > 0) memcpy(to.data(), &bytes_[begin_], taken);
  begin_ += taken;
  in_record_ -= taken;
  return taken;
}

}  // namespace sk::tls
