// One line for each operation. schema.cpp lists them in this order.
#ifndef SK_LIB_OP_OPS_ALL_H_
#define SK_LIB_OP_OPS_ALL_H_

#include "lib/op/ops/adamw.h"
#include "lib/op/ops/add_rmsnorm.h"
#include "lib/op/ops/allgather_gemm.h"
#include "lib/op/ops/allreduce_gemm.h"
#include "lib/op/ops/collectives.h"
#include "lib/op/ops/memory.h"
#include "lib/op/ops/rmsnorm.h"

#define SK_ALL_SCHEMAS(X) \
  X(kBarrier)             \
  X(kAllreduce)           \
  X(kAllgather)           \
  X(kReduceScatter)       \
  X(kBroadcast)           \
  X(kSendRecv)            \
  X(kAlltoall)            \
  X(kReduceToRoot)        \
  X(kGather)              \
  X(kScatter)             \
  X(kAllreduceGemm)       \
  X(kAllgatherGemm)       \
  X(kRmsnorm)             \
  X(kRmsnormBackward)     \
  X(kAddRmsnorm)          \
  X(kAdamw)               \
  X(kAlloc)               \
  X(kFree)                \
  X(kRegister)            \
  X(kDeregister)

#endif  // SK_LIB_OP_OPS_ALL_H_
