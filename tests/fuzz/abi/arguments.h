// What the fuzzer of the C ABI hands over: numbers, strings, structs and memory that a careless or
// a hostile caller might, as far as a library can tell them from good ones.
#ifndef SK_TESTS_FUZZ_ABI_ARGUMENTS_H_
#define SK_TESTS_FUZZ_ABI_ARGUMENTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <type_traits>

namespace sk::fuzz_abi {

// Ends the program with a sentence; what every check of the fuzzer comes to.
[[noreturn]] void fail(const std::string& what);

// Memory between canaries, with a page behind that nobody may touch.
class Guarded {
 public:
  explicit Guarded(size_t bytes);
  ~Guarded();
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  // The last `bytes` of it, so that a write beyond hits the canary, then the page. The bytes before
  // are canary, too, but what the same call was given of it before: its arrays may share memory.
  unsigned char* tail(size_t bytes);
  size_t bytes() const { return bytes_; }
  // The call's end: fails where a canary is not as it was, and takes back all that was given.
  void check(const char* call);

 private:
  static constexpr size_t kCanary = 64;
  unsigned char* map_;
  size_t map_bytes_;
  size_t bytes_;
  unsigned char* begin_;  // Of the canary in front.
  unsigned char* end_;    // Of the canary behind.
  size_t given_ = 0;      // The longest tail() of this call.
};

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  uint64_t bits() { return engine_(); }
  uint64_t below(uint64_t bound) { return engine_() % bound; }
  bool one_in(uint64_t n) { return engine_() % n == 0; }

  // Zero, ends of ranges, powers of two and their neighbours, anything.
  int64_t number();
  // As a rule from `least` to `most`, else number().
  int64_t around(int64_t least, int64_t most) {
    if (one_in(4)) return number();
    return least + int64_t(below(uint64_t(most - least) + 1));
  }
  // A wait: none, short, or one that is refused. A valid long one would be waited for.
  int64_t timeout_ms() {
    constexpr int64_t kRefused[] = {-1, INT64_MIN, INT64_MAX, int64_t(1) << 50};
    return one_in(4) ? kRefused[below(4)] : int64_t(below(3));
  }
  // Null, "", a word, something long, something that is no UTF-8.
  const char* text(std::string& room);
  std::string json();

 private:
  std::mt19937_64 engine_;
};

// A size that a caller may give for a struct of `bytes`; all memory up to 4096 is there.
uint32_t struct_size(Random& random, size_t bytes);

// A struct as the caller hands it over: in memory of the largest size that it can claim.
template <typename Struct>
class Given {
  static_assert(std::is_trivially_copyable_v<Struct>);

 public:
  Given(Random& random, Struct value) : Given(random, value, struct_size(random, sizeof(Struct))) {}
  Given(Random& random, Struct value, uint32_t size) {
    value.struct_size = size;
    std::memcpy(memory_, &value, sizeof value);
    if (random.one_in(16)) memory_[sizeof value + random.below(64)] = 1;
    std::memcpy(before_, memory_, sizeof memory_);
    if (random.one_in(24)) pointer_ = nullptr;
  }
  Given(const Given&) = delete;  // It points into itself.
  Given& operator=(const Given&) = delete;
  Struct* get() { return pointer_; }
  const Struct& value() const { return *reinterpret_cast<const Struct*>(memory_); }
  // Fails where more has changed than what the library may fill.
  void check(const char* call, bool is_filled) const {
    size_t may = 0;
    if (is_filled) may = std::min<size_t>(value().struct_size, sizeof(Struct));
    if (std::memcmp(memory_ + may, before_ + may, sizeof memory_ - may) != 0)
      fail(std::string(call) + " wrote into a struct what is not its own");
  }

 private:
  alignas(8) unsigned char memory_[4096] = {};
  unsigned char before_[4096];
  Struct* pointer_ = reinterpret_cast<Struct*>(memory_);
};

}  // namespace sk::fuzz_abi

#endif  // SK_TESTS_FUZZ_ABI_ARGUMENTS_H_
