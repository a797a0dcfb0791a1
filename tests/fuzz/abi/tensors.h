// Tensors and run options as callers of operations hand them over, now and then with a field that
// is wrong.
#ifndef SK_TESTS_FUZZ_ABI_TENSORS_H_
#define SK_TESTS_FUZZ_ABI_TENSORS_H_

#include "tests/fuzz/abi/fuzz.h"

namespace sk::fuzz_abi {

inline uint64_t element_bytes(int32_t dtype) {
  if (dtype == SK_F64 || dtype == SK_I64) return 8;
  return dtype == SK_BF16 || dtype == SK_F16 ? 2 : 4;
}

struct Options {
  explicit Options(Caller& c) : given(c.random, make(c)) {
    if (c.random.one_in(2)) pointer = given.get();
  }
  // Longer waits than a world's own are right, and would be waited for.
  static sk_run_options make(Caller& c) {
    sk_run_options options{};
    constexpr int64_t kRefused[] = {-1, INT64_MIN, INT64_MAX, (int64_t(1) << 40) + 1};
    options.timeout_ms =
        c.random.one_in(4) ? kRefused[c.random.below(4)] : int64_t(c.random.below(4));
    if (c.random.one_in(16)) options.device_type = int32_t(c.random.number());
    if (c.random.one_in(16)) options.device_id = int32_t(c.random.number());
    if (c.random.one_in(16)) options.reserved = int32_t(c.random.number());
    if (c.random.one_in(16)) options.stream = &options;
    return options;
  }
  Given<sk_run_options> given;
  const sk_run_options* pointer = nullptr;
};

// Now and then puts into one field what it never has.
void spoil(Random& random, sk_tensor& tensor);

// A matrix that lies in `memory` to the last byte; with one axis its first row.
Given<sk_tensor> matrix(Caller& c, Guarded& memory, int64_t rows, int64_t cols, int32_t dtype,
                        int32_t ndim = 2);

}  // namespace sk::fuzz_abi

#endif  // SK_TESTS_FUZZ_ABI_TENSORS_H_
