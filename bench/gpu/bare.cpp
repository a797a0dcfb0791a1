#include "bench/gpu/bare.h"

namespace sk::cuda {

BareProduct::BareProduct(const Machine& machine, bool pairs)
    : machine_(machine),
      pairs_(pairs),
      kernel_(machine.device().kernel(pairs ? kRunPairsBf16 : kRunBoxesBf16)) {
  const Device& device = machine.device();
  const KernelNeeds needs = kernel_.needs;
  if (needs.block_threads == 0) return;
  function_ = must(device.load_kernel(pairs ? "sk_bare_pairs_bf16" : "sk_bare_boxes_bf16"));
  machine.check(device.driver().cuFuncSetAttribute(function_, abi::kMaxDynamicSharedSizeBytes,
                                                   int(needs.shared_bytes)),
                "cuFuncSetAttribute");
}

std::string BareProduct::absent(const Shape& shape) const {
  if (function_ == nullptr) return "this GPU has no kernel that multiplies boxes";
  if (shape.a_pitch() % 16 != 0) return "rows of A are no multiple of 16 bytes apart";
  return "";
}

void BareProduct::enqueue(const Shape& shape, const Matrix& a, const Matrix& b, const Matrix& c,
                          uint32_t band_rows) const {
  const Device& device = machine_.device();
  BareGemm gemm{};
  gemm.a = static_cast<const std::byte*>(a.data());
  gemm.b = static_cast<const std::byte*>(b.data());
  gemm.c = static_cast<std::byte*>(c.data());
  gemm.a_pitch = shape.a_pitch();
  gemm.packed_bytes = shape.b_bytes();
  gemm.c_pitch = uint64_t(shape.n) * 2;
  gemm.m = uint32_t(shape.m);
  gemm.n = uint32_t(shape.n);
  gemm.k = uint32_t(shape.k);
  gemm.band_rows = band_rows;
  gemm.dtype = gemm.out_dtype = uint32_t(DType::kBF16);
  const uint64_t m = uint64_t(shape.m), n = uint64_t(shape.n), k = uint64_t(shape.k);
  must(encode_view(device, {a.address(), m, k, gemm.a_pitch, DType::kBF16, kBoxRowsA},
                   gemm.views[0]));
  must(encode_view(
      device,
      {b.address(), n, k, shape.b_pitch(), DType::kBF16, pairs_ ? kNarrowBoxRowsB : kBoxRowsB},
      gemm.views[1]));
  const Launch all(kernel_, machine_.used(kernel_.blocks_max), pairs_ ? kPairBlocks : 1,
                   /*cooperative=*/false, machine_.stream());
  void* parameters[] = {&gemm};
  machine_.check(device.driver().cuLaunchKernelEx(all.config(), function_, parameters, nullptr),
                 "cuLaunchKernelEx");
}

}  // namespace sk::cuda
