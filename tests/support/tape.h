// A pipe that gives what it was made of, some bytes at a time, and takes nothing.
#ifndef SK_TESTS_SUPPORT_TAPE_H_
#define SK_TESTS_SUPPORT_TAPE_H_

#include <algorithm>
#include <cstdint>
#include <span>

#include "transport/stream/pipe.h"

namespace sk::testing_support {

class Tape final : public stream::Pipe {
 public:
  // `bytes` are the caller's.
  explicit Tape(std::span<const std::byte> bytes, size_t piece = SIZE_MAX)
      : bytes_(bytes), piece_(piece) {}
  Result<size_t> send(std::span<const iovec>) override { return size_t{0}; }
  Result<size_t> receive(std::span<std::byte> room) override {
    const size_t count = std::min({room.size(), bytes_.size() - at_, piece_});
    std::copy_n(bytes_.begin() + ptrdiff_t(at_), count, room.begin());
    at_ += count;
    return count;
  }
  bool ended() const override { return at_ == bytes_.size(); }
  int fd() const override { return -1; }

 private:
  const std::span<const std::byte> bytes_;
  const size_t piece_;
  size_t at_ = 0;
};

}  // namespace sk::testing_support

#endif  // SK_TESTS_SUPPORT_TAPE_H_
