// Counts beyond 31 and 32 bits. The operands are as long as they say, but all of their memory but
// the ends is one piece that is mapped again and again, so that a machine of a few GiB has room.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "sk.h"
#include "tests/multi/thread_ranks.h"

namespace sk::testing_ops {
namespace {

constexpr size_t kPiece = size_t{16} << 20;
constexpr uint16_t kPoison = 0xbeef;

// `count` numbers of 16 bits. Its first piece and what is behind the last whole one are memory
// of their own.
class Long {
 public:
  static std::optional<Long> make(size_t count) {
    Long made;
    made.count_ = count;
    made.pieces_ = count * 2 / kPiece;  // Whole ones; what is left is the end.
    made.bytes_ = (made.pieces_ + 1) * kPiece;
    void* const all = mmap(nullptr, made.bytes_, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    const int fd = memfd_create("piece", MFD_CLOEXEC);
    if (all == MAP_FAILED || fd < 0 || ftruncate(fd, kPiece) != 0) return std::nullopt;
    auto* const base = static_cast<std::byte*>(all);
    bool mapped = true;
    for (size_t i = 1; i < made.pieces_; ++i) {
      mapped = mapped && mmap(base + i * kPiece, kPiece, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED;
    }
    close(fd);
    if (!mapped) return std::nullopt;
    made.base_ = reinterpret_cast<uint16_t*>(base);
    return made;
  }
  Long(Long&& other) noexcept { *this = std::move(other); }
  Long& operator=(Long&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(count_, other.count_);
    std::swap(pieces_, other.pieces_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Long() {
    if (base_ != nullptr) munmap(base_, bytes_);
  }

  uint16_t* data() const { return base_; }
  // The same all over its pieces, and so in all that is mapped again.
  void fill(uint16_t value) {
    std::fill_n(base_, kPiece, value);  // Two pieces.
    std::fill_n(base_ + pieces_ * kPiece / 2, kPiece / 2, value);
  }
  // Where the first number is that is not `value`, and whether what lies behind was left alone.
  void expect_all(uint16_t value) const {
    const uint16_t* const tail = base_ + pieces_ * kPiece / 2;
    const size_t left = count_ - pieces_ * kPiece / 2;
    // The first piece, the one that is mapped again and again, and the end.
    for (const auto& [from, many] :
         {std::pair<const uint16_t*, size_t>(base_, kPiece), {tail, left}}) {
      const auto* wrong = std::find_if(from, from + many, [&](uint16_t x) { return x != value; });
      EXPECT_EQ(wrong, from + many) << "at " << (wrong - base_) << ": " << *wrong;
    }
    EXPECT_EQ(tail[left], kPoison);
  }

 private:
  Long() = default;
  uint16_t* base_ = nullptr;
  size_t count_ = 0, pieces_ = 0, bytes_ = 0;
};

constexpr uint16_t kOne = 0x3f80, kTwo = 0x4000;  // As bf16.

void in_pairs(size_t count, const std::function<sk_status(sk_comm*, const void*, void*)>& call,
              uint16_t expected) {
  in_thread_ranks(2, [&](sk_comm* comm, int rank) {
    std::optional<Long> in = Long::make(count), out = Long::make(count);
    ASSERT_TRUE(in && out) << "no addresses for " << count << " numbers";
    in->fill(kOne);
    out->fill(kPoison);
    ASSERT_EQ(call(comm, in->data(), out->data()), SK_OK) << "rank " << rank << sk_last_error();
    out->expect_all(expected);
  });
}

TEST(LargeCounts, OfMoreThan32BitsAreBroadcast) {
  const size_t count = (size_t{1} << 32) + 5;
  in_pairs(
      count,
      [&](sk_comm* comm, const void* in, void* out) {
        return sk_broadcast(comm, in, out, int64_t(count), SK_BF16, 1, nullptr);
      },
      kOne);
}

TEST(LargeCounts, OfMoreThan31BitsAreSummed) {
  const size_t count = (size_t{1} << 31) + 3;
  in_pairs(
      count,
      [&](sk_comm* comm, const void* in, void* out) {
        return sk_allreduce(comm, in, out, int64_t(count), SK_BF16, SK_SUM, nullptr);
      },
      kTwo);
}

}  // namespace
}  // namespace sk::testing_ops
