// The fake driver's side of what callers do by themselves.
#ifndef SK_TESTS_GPU_FAKE_CALLS_H_
#define SK_TESTS_GPU_FAKE_CALLS_H_

#include "tests/gpu/machine.h"
#include "tests/unit/cuda/fake_driver.h"

namespace sk::cuda {

// For the one fake driver of this process, which outlives their use.
Calls fake_calls(FakeDriver& fake);

}  // namespace sk::cuda

#endif  // SK_TESTS_GPU_FAKE_CALLS_H_
