// The single checks that the argument functions are made of.
#ifndef SK_LIB_COMM_CHECKS_H_
#define SK_LIB_COMM_CHECKS_H_

#include "lib/base/status.h"
#include "lib/comm/backend.h"
#include "lib/op/dtype.h"
#include "sk/op.h"

namespace sk::check {

inline constexpr int64_t kTimeoutMsMax = int64_t(1) << 40;  // 35 years: no overflow in ns.

inline constexpr int64_t kExtentMax = int64_t(1) << 31;  // Of one dimension of a matrix.

// `copies`: how many blocks of `value` elements the largest operand has.
Status count(int64_t value, DType dtype, uint64_t copies);
Status pointer(const char* name, const void* data, uint64_t bytes, DType dtype);
Result<DType> dtype(const char* name, int32_t value);
Result<RedOp> redop(int32_t value, DType dtype);
Status rank(const char* name, int32_t value, int32_t world_size);
Status apart(const char* a_name, const void* a, uint64_t a_bytes, const char* b_name, const void* b,
             uint64_t b_bytes);

struct RunOptions {
  int64_t timeout_ns = 0;  // 0: the communicator's.
  void* stream = nullptr;
};
Status timeout_ms(const char* name, int64_t value);
// For a communicator on `device`.
Result<RunOptions> run_options(const DeviceId& device, const sk_run_options* options);
// "the CPU (0:0)", "GPU 1 (2:1)".
std::string device_text(const DeviceId& device);

}  // namespace sk::check

#endif  // SK_LIB_COMM_CHECKS_H_
