// One line for each operation. schema.cpp lists them in this order.
#ifndef SK_LIB_OP_OPS_ALL_H_
#define SK_LIB_OP_OPS_ALL_H_

#include "lib/op/schema.h"

#define SK_ALL_SCHEMAS(X) \
  X(kBarrier)             \
  X(kAllreduce)           \
  X(kAllgather)           \
  X(kReduceScatter)       \
  X(kBroadcast)           \
  X(kSendRecv)            \
  X(kAllreduceGemm)       \
  X(kAlloc)               \
  X(kFree)                \
  X(kRegister)            \
  X(kDeregister)

namespace sk::ops {

#define SK_DECLARE_SCHEMA(name) extern const Schema name;
SK_ALL_SCHEMAS(SK_DECLARE_SCHEMA)
#undef SK_DECLARE_SCHEMA

}  // namespace sk::ops

#endif  // SK_LIB_OP_OPS_ALL_H_
