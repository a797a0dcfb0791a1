// The floating-point mode that all of libsk computes in, whatever the caller's thread has.
//
// Rounding, flushing of subnormal numbers and trapping are state of a thread: torch's
// set_flush_denormal(), -ffast-math and feenableexcept() change them. Results are the same bits on
// every rank only if all ranks compute alike, so each call of the C ABI begins with this. Threads
// that libsk starts in such a call inherit the mode.
#ifndef SK_LIB_BASE_FLOAT_MODE_H_
#define SK_LIB_BASE_FLOAT_MODE_H_

#include <cstdint>

namespace sk {

// To nearest, subnormal numbers kept, no traps: from construction to end. The caller's mode, and
// the exceptions that it has seen, come back.
class FloatMode {
 public:
  FloatMode() : callers_(read()) {
    if (differs(callers_)) [[unlikely]]
      write(kDefault);
  }
  ~FloatMode() {
    if (differs(callers_)) [[unlikely]]
      write(callers_);
  }
  // This thread's mode as it was, behind foreign code that may change it: x87's, too, which
  // fesetround() sets with the other and libsk does not compute with.
  class Kept {
   public:
    Kept() : word_(read()), other_(read_other()) {}
    ~Kept() {
      if ((read() & ~kSeen) != (Word(word_) & ~kSeen)) [[unlikely]]
        write(Word(word_));
      if (read_other() != other_) [[unlikely]]
        write_other(other_);
    }
    Kept(const Kept&) = delete;
    Kept& operator=(const Kept&) = delete;

   private:
    uint64_t word_;  // A Word.
    uint16_t other_;
  };

  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;

 private:
#if defined(__x86_64__)
  using Word = uint32_t;
  static constexpr Word kDefault = 0x1f80;  // All exceptions masked.
  static constexpr Word kSeen = 0x3f;       // Exceptions so far: no mode.
  static Word read() { return __builtin_ia32_stmxcsr(); }
  static void write(Word word) { __builtin_ia32_ldmxcsr(word); }
  static uint16_t read_other() {
    uint16_t word;
    asm volatile("fnstcw %0" : "=m"(word));
    return word;
  }
  static void write_other(uint16_t word) { asm volatile("fldcw %0" ::"m"(word)); }
#elif defined(__aarch64__)
  using Word = uint64_t;
  static constexpr Word kDefault = 0;
  static constexpr Word kSeen = 0;  // They have a register of their own.
  static Word read() {
    Word word;
    asm volatile("mrs %0, fpcr" : "=r"(word));
    return word;
  }
  static void write(Word word) { asm volatile("msr fpcr, %0" ::"r"(word)); }
  static uint16_t read_other() { return 0; }
  static void write_other(uint16_t) {}
#else
#error "say how this machine's floating-point mode is read and written"
#endif
  static bool differs(Word word) { return (word & ~kSeen) != kDefault; }

  Word callers_;
};

}  // namespace sk

#endif  // SK_LIB_BASE_FLOAT_MODE_H_
