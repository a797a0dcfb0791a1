// Faults of the fake GPU, asked for by the environment: so that what runs programs on a GPU can be
// shown one that hangs, fails, is poisoned, or takes the process with it.
#ifndef SK_TESTS_GPU_FAULT_H_
#define SK_TESTS_GPU_FAULT_H_

#include "tests/unit/cuda/fake_driver.h"

namespace sk::cuda {

// SK_FAKE_FAULT=KIND@STEP or KIND@STEP@FILE, for the process whose SK_GPU_STEP is STEP; with FILE
// only where that can be removed, so once. At the next launch:
//
//   hang     it never ends
//   fail     the driver refuses it
//   poison   it ends in an illegal address, which nothing of the process survives
//   kill     the process is killed
//   lose     an arrival of a work warp at a barrier of its block is lost
//   mute     no rank posts its signals, so that others wait for them in vain
//
// Throws where there is no such fault.
void plant_fault(FakeDriver& fake);

}  // namespace sk::cuda

#endif  // SK_TESTS_GPU_FAULT_H_
