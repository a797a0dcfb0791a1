// What callers hand over, looked at before anything is launched.
#ifndef SK_CUDA_EXEC_OPERANDS_H_
#define SK_CUDA_EXEC_OPERANDS_H_

#include <span>
#include <string>

#include "cuda/exec/device.h"
#include "cuda/exec/views.h"
#include "lib/plan/plan.h"

namespace sk::cuda {

// Whether `device` reaches what lies at `pointer`. `what`: how sentences name it.
Status check_place(const Device& device, const std::string& what, const void* pointer);

// Every operand of every rank lies on `device`, at an address that fits its type. This thread's
// context is the device's.
Status check_operands(const Device& device, const Plan& plan, std::span<const RankOperands> ranks);

// `view` as the copy engine reads it: boxes of 128 bytes of a row each, its units of 16 bytes
// swizzled as load_box() says.
Status encode_view(const Device& device, const BoxView& view, TensorMap& map);

// Whether work on `stream` becomes part of a graph; an error if nothing can be launched on it.
Result<bool> is_captured(const Device& device, abi::Stream stream);

}  // namespace sk::cuda

#endif  // SK_CUDA_EXEC_OPERANDS_H_
