// What is asked: kind, shapes, types, ranks. No how.
#ifndef SK_LIB_OP_OP_H_
#define SK_LIB_OP_OP_H_

#include <cstdint>
#include <string>

#include "lib/base/status.h"
#include "lib/op/dtype.h"

namespace sk {

enum class OpKind : uint8_t {
  kBarrier = SK_OP_BARRIER,
  kAllreduce = SK_OP_ALLREDUCE,
  kAllgather = SK_OP_ALLGATHER,
  kReduceScatter = SK_OP_REDUCE_SCATTER,
  kBroadcast = SK_OP_BROADCAST,
  kSendRecv = SK_OP_SEND_RECV,
  kAllreduceGemm = SK_OP_ALLREDUCE_GEMM,
  // Collective calls that move nothing: entry exchanges with a name, so that a mismatch can say it.
  kAlloc = 100,
  kFree = 101,
  kRegister = 102,
  kDeregister = 103,
};

// Equal on all ranks: its fingerprint is part of what the entry exchange compares. Fields that a
// kind does not use stay zero. A is [m, k] with leading stride `lda`, C is [m, n] with leading
// stride `ldc`, all in elements; B is packed, or a matrix [k, n] with leading stride `ldb`.
struct OpDesc {
  OpKind kind = OpKind::kBarrier;
  DType dtype = DType::kF32;
  DType out_dtype = DType::kF32;  // kAllreduceGemm only; else equal to dtype.
  RedOp redop = RedOp::kSum;
  bool symmetric_in = false;   // Peers can map the input (A), so that plans may read it.
  bool symmetric_out = false;  // Peers can map the output (C), so that plans may write it.
  bool in_place = false;     // Input and output are the same bytes (see include/sk/op.h for which).
  bool transpose_a = false;  // A holds [k, m].
  bool pack_b = false;       // B comes as a matrix, to be packed in the run; else packed already.
  bool transpose_b = false;  // With pack_b: B holds [n, k].
  int32_t root = 0;          // kBroadcast: root; kSendRecv: sender.
  int32_t peer = 0;          // kSendRecv: receiver.
  int64_t count = 0;         // Elements, as in the call.
  int64_t m = 0, n = 0, k = 0;
  int64_t lda = 0, ldb = 0, ldc = 0;

  bool operator==(const OpDesc&) const = default;
};

// Never 0, so that a cleared entry slot matches nothing.
uint64_t fingerprint(const OpDesc& op);

// "allreduce(f32, sum, 1000)": for error sentences.
std::string describe(const OpDesc& op);
const char* op_kind_name(OpKind kind);
// As callers know operand 0, 1 or 2: "in", "out"; of a GEMM "a", "c", "b".
const char* operand_name(const OpDesc& op, uint32_t operand);

}  // namespace sk

#endif  // SK_LIB_OP_OP_H_
