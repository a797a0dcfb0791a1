#include "lib/op/op.h"

#include <cmath>

#include "lib/base/hash.h"

namespace sk {

const char* dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kF64:
      return "f64";
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "f16";
    case DType::kI32:
      return "i32";
    case DType::kI64:
      return "i64";
  }
  return "?";
}

const char* redop_name(RedOp op) {
  switch (op) {
    case RedOp::kSum:
      return "sum";
    case RedOp::kProd:
      return "prod";
    case RedOp::kMin:
      return "min";
    case RedOp::kMax:
      return "max";
    case RedOp::kAvg:
      return "avg";
  }
  return "?";
}

const char* op_kind_name(OpKind kind) {
  switch (kind) {
    case OpKind::kBarrier:
      return "barrier";
    case OpKind::kAllreduce:
      return "allreduce";
    case OpKind::kAllgather:
      return "allgather";
    case OpKind::kReduceScatter:
      return "reduce_scatter";
    case OpKind::kBroadcast:
      return "broadcast";
    case OpKind::kSendRecv:
      return "send_recv";
    case OpKind::kAllreduceGemm:
      return "allreduce_gemm";
    case OpKind::kAlloc:
      return "alloc";
    case OpKind::kFree:
      return "free";
    case OpKind::kRegister:
      return "register";
    case OpKind::kDeregister:
      return "deregister";
  }
  return "?";
}

const char* operand_name(const OpDesc& op, uint32_t operand) {
  if (op.kind != OpKind::kAllreduceGemm) return operand == 0 ? "in" : "out";
  return operand == 0 ? "a" : operand == 1 ? "c" : "b";
}

float f16_to_f32(uint16_t bits) {
  const uint32_t sign = uint32_t(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float magnitude = float(mantissa) * 0x1p-24f;  // Subnormal: exact in f32.
  return sign ? -magnitude : magnitude;
}

uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = uint16_t((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return uint16_t(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return uint16_t(sign | 0x7c00u);  // 65520 and above round to inf.
  if (magnitude < 0x38800000u) {                                  // Below 2^-14: subnormal or zero.
    // Adding 0.5 leaves the subnormal's bits, rounded to even by the FPU, in the low mantissa.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return uint16_t(sign | uint16_t(std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return uint16_t(sign | uint16_t((rounded - 0x38000000u) >> 13));
}

uint64_t fingerprint(const OpDesc& op) {
  uint64_t hash =
      hash_mix(0, uint64_t(op.kind) | uint64_t(op.dtype) << 8 | uint64_t(op.out_dtype) << 16 |
                      uint64_t(op.redop) << 24 | uint64_t(op.symmetric_in) << 32 |
                      uint64_t(op.symmetric_out) << 33 | uint64_t(op.in_place) << 34 |
                      uint64_t(op.transpose_a) << 35 | uint64_t(op.pack_b) << 36 |
                      uint64_t(op.transpose_b) << 37);
  hash = hash_mix(hash, uint64_t(uint32_t(op.root)) << 32 | uint32_t(op.peer));
  for (const int64_t value : {op.count, op.m, op.n, op.k, op.lda, op.ldb, op.ldc}) {
    hash = hash_mix(hash, uint64_t(value));
  }
  return hash == 0 ? 1 : hash;
}

namespace {

std::string shape_of(const OpDesc& op) {
  const char* dtype = dtype_name(op.dtype);
  switch (op.kind) {
    case OpKind::kBarrier:
      return "";
    case OpKind::kAllreduce:
    case OpKind::kReduceScatter:
      return fmt::format("{}, {}, {}", dtype, redop_name(op.redop), op.count);
    case OpKind::kAllgather:
      return fmt::format("{}, {}", dtype, op.count);
    case OpKind::kBroadcast:
      return fmt::format("{}, {}, root {}", dtype, op.count, op.root);
    case OpKind::kSendRecv:
      return fmt::format("{}, {}, {} to {}", dtype, op.count, op.root, op.peer);
    case OpKind::kAllreduceGemm:
      return fmt::format("{} to {}, {} x {} x {}", dtype, dtype_name(op.out_dtype), op.m, op.n,
                         op.k);
    case OpKind::kAlloc:
    case OpKind::kFree:
    case OpKind::kRegister:
    case OpKind::kDeregister:
      return fmt::format("{} bytes", op.count);
  }
  return "?";
}

}  // namespace

std::string describe(const OpDesc& op) {
  const char* memory = op.symmetric_in ? (op.symmetric_out ? ", symmetric" : ", symmetric in")
                                       : (op.symmetric_out ? ", symmetric out" : "");
  return fmt::format("{}({}{}{})", op_kind_name(op.kind), shape_of(op), memory,
                     op.in_place ? ", in place" : "");
}

}  // namespace sk
