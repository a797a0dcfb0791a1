// A pipe that gives what it was made of, some bytes at a time, at one place or at two; takes
// nothing.
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
  explicit Tape(std::span<const std::byte> bytes, size_t piece = SIZE_MAX, bool at_two = false)
      : bytes_(bytes), piece_(piece), at_two_(at_two) {}
  Result<size_t> send(std::span<const iovec>) override { return size_t{0}; }
  Result<size_t> receive(std::span<std::byte> room) override {
    ++calls_;
    return take(room, piece_);
  }
  Result<size_t> receive(std::span<std::byte> room, std::span<std::byte> behind) override {
    if (!at_two_) return receive(room);
    ++calls_;
    const size_t count = take(room, piece_);
    return count < room.size() ? count : count + take(behind, piece_ - count);
  }
  int calls() const { return calls_; }
  bool ended() const override { return at_ == bytes_.size(); }
  int fd() const override { return -1; }

 private:
  size_t take(std::span<std::byte> room, size_t most) {
    const size_t count = std::min({room.size(), bytes_.size() - at_, most});
    std::copy_n(bytes_.begin() + ptrdiff_t(at_), count, room.begin());
    at_ += count;
    return count;
  }

  const std::span<const std::byte> bytes_;
  const size_t piece_;
  const bool at_two_;
  size_t at_ = 0;
  int calls_ = 0;
};

}  // namespace sk::testing_support

#endif  // SK_TESTS_SUPPORT_TAPE_H_
