// The CUDA driver as a table of functions: loaded at run time, replaced by a fake in tests.
#ifndef SK_CUDA_DRIVER_DRIVER_H_
#define SK_CUDA_DRIVER_DRIVER_H_

#include <string>

#include "cuda/driver/abi.h"
#include "lib/base/status.h"

namespace sk::cuda {

namespace abi {
struct DriverTable {
#define SK_MEMBER(name, symbol, ...) Result (*name)(__VA_ARGS__) = nullptr;
  SK_CUDA_DRIVER_FUNCTIONS(SK_MEMBER)
  SK_CUDA_LATER_FUNCTIONS(SK_MEMBER)
#undef SK_MEMBER
};
}  // namespace abi
using Driver = abi::DriverTable;

// Every function of `library`, which stays loaded. SK_ERR_UNSUPPORTED: it is absent, or older than
// the functions that must be there.
Result<Driver> load_driver(const char* library = "libcuda.so.1");

// Whether the driver runs kernels that a toolkit of version `toolkit` made (13000: 13.0), and
// initialises it. SK_ERR_UNSUPPORTED names both versions, or says that there is no GPU. `release`:
// the driver's own number, where it is known.
Status start_driver(const Driver& driver, uint32_t toolkit, const std::string& release);

// "13.0" for 13000.
std::string version_text(uint32_t version);

// After these nothing works on any GPU of this process, until it ends.
bool is_sticky(abi::Result result);

// OK, or SK_ERR_DEVICE (memory: SK_ERR_NO_MEMORY) with the name of the call and of the error.
Status driver_status(const Driver& driver, abi::Result result, const char* call);

#define SK_CUDA_TRY(driver, call, ...) \
  SK_RETURN_IF_ERROR(::sk::cuda::driver_status((driver), (driver).call(__VA_ARGS__), #call))

// A GPU's context is this thread's current one while this lives; the one before is, after it.
class Current {
 public:
  Current(const Driver& driver, abi::Context context)
      : driver_(driver), result_(driver.cuCtxPushCurrent(context)) {}
  ~Current() {
    abi::Context popped = nullptr;
    if (result_ == abi::kSuccess) driver_.cuCtxPopCurrent(&popped);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

  Status status() const { return driver_status(driver_, result_, "cuCtxPushCurrent"); }

 private:
  const Driver& driver_;
  const abi::Result result_;
};

// While this lives, this thread may allocate and load although some stream is being captured: what
// it does is no part of any capture.
class OutsideCaptures {
 public:
  explicit OutsideCaptures(const Driver& driver) : driver_(driver) {
    driver_.cuThreadExchangeStreamCaptureMode(&mode_);
  }
  ~OutsideCaptures() { driver_.cuThreadExchangeStreamCaptureMode(&mode_); }
  OutsideCaptures(const OutsideCaptures&) = delete;
  OutsideCaptures& operator=(const OutsideCaptures&) = delete;

 private:
  const Driver& driver_;
  abi::CaptureMode mode_ = abi::kCaptureRelaxed;
};

}  // namespace sk::cuda

#endif  // SK_CUDA_DRIVER_DRIVER_H_
