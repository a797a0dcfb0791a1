#include "lib/plan/task_info.h"

#include "lib/op/dtype.h"

namespace sk {
namespace {

constexpr int64_t kExtentMax = int64_t(1) << 40;  // Rows, columns: products of two fit 128 bits.

constexpr ParamInfo dtype_param(const char* name) {
  return {name, ParamKind::kDtype, SK_F32, SK_I64};
}
constexpr ParamInfo extent(const char* name, int64_t min = 0) {
  return {name, ParamKind::kInteger, min, kExtentMax};
}
constexpr ParamInfo kHintInfo = {"hint", ParamKind::kHint, kStoreDefault, kHandOver};

constexpr ParamInfo kCopyParams[] = {kHintInfo};
constexpr ParamInfo kReduceParams[] = {dtype_param("dtype"), dtype_param("out_dtype"),
                                       ParamInfo{"redop", ParamKind::kRedop, SK_SUM, SK_AVG},
                                       kHintInfo};
constexpr ParamInfo kPackParams[] = {
    dtype_param("dtype"), ParamInfo{"transpose_b", ParamKind::kBool, 0, 1},
    extent("k"),          extent("n", 1),
    extent("col0"),       extent("col1", 1)};
constexpr ParamInfo kGemmParams[] = {
    dtype_param("dtype"),
    dtype_param("out_dtype"),
    ParamInfo{"transpose_a", ParamKind::kBool, 0, 1},
    extent("m", 1),
    extent("n", 1),
    extent("k"),
    extent("row0"),
    extent("rows", 1),
    extent("col0"),
    extent("cols", 1),
    ParamInfo{"epilogue", ParamKind::kEpilogue, kGemmStore, kGemmReduce},
    ParamInfo{"self", ParamKind::kInteger, 0, UINT16_MAX},
    kHintInfo};
static_assert(std::size(kCopyParams) == kCopyParamCount);
static_assert(std::size(kReduceParams) == kReduceParamCount);
static_assert(std::size(kPackParams) == kPackParamCount);
static_assert(std::size(kGemmParams) == kGemmParamCount);

constexpr TaskInfo kTasks[] = {
    {TaskOp::kNop, "nop", 0, 0, {}, false},
    {TaskOp::kEnter, "enter", 0, 0, {}, false},
    {TaskOp::kAwait, "await", 0, 0, {}, false},
    {TaskOp::kPut, "put", 2, 2, {}, true},
    {TaskOp::kCopy, "copy", 2, 2, kCopyParams, true},
    {TaskOp::kReduce, "reduce", 2, kRegionCountMax, kReduceParams, true},
    {TaskOp::kPackB, "pack_b", 2, 2, kPackParams, false},
    {TaskOp::kGemm, "gemm", 3, 4, kGemmParams, true},
};
static_assert(std::size(kTasks) == kTaskOpCount);

constexpr RegionRole kSource = {"src", kRead, false}, kIn = {"in", kRead, true},
                     kDestination = {"dst", kWrite, true}, kPutTo = {"dst", kWrite, false},
                     kOut = {"out", kWrite, true}, kMatrixA = {"a", kRead, false},
                     kMatrixB = {"b", kRead, false}, kPacked = {"packed", kWrite, false},
                     kPartials = {"partials", kRead, true}, kPartial = {"partial", kWrite, false},
                     kMatrixC = {"c", kWrite, true};

const RegionRole* gemm_role(int64_t epilogue, uint32_t index, uint32_t count) {
  if (count != (epilogue == kGemmReduce ? 4u : 3u)) return nullptr;
  if (index < 2) return index == 0 ? &kMatrixA : &kMatrixB;
  if (epilogue == kGemmReduce) return index == 2 ? &kPartials : &kMatrixC;
  return epilogue == kGemmPartial ? &kPartial : &kMatrixC;
}

}  // namespace

const TaskInfo* task_info(TaskOp op) {
  return uint32_t(op) < kTaskOpCount ? &kTasks[uint32_t(op)] : nullptr;
}

const TaskInfo* task_info(std::string_view name) {
  for (const TaskInfo& info : kTasks) {
    if (name == info.name) return &info;
  }
  return nullptr;
}

const RegionRole* region_role(TaskOp op, int64_t gemm_epilogue, uint32_t index, uint32_t count) {
  if (index >= count) return nullptr;
  switch (op) {
    case TaskOp::kNop:
    case TaskOp::kEnter:
    case TaskOp::kAwait:
      return nullptr;
    case TaskOp::kPut:
      return index == 0 ? &kSource : &kPutTo;
    case TaskOp::kCopy:
      return index == 0 ? &kSource : &kDestination;
    case TaskOp::kReduce:
      return index + 1 < count ? &kIn : &kOut;
    case TaskOp::kPackB:
      return index == 0 ? &kMatrixB : &kPacked;
    case TaskOp::kGemm:
      return gemm_role(gemm_epilogue, index, count);
  }
  return nullptr;
}

std::string_view param_value_name(ParamKind kind, int64_t value) {
  switch (kind) {
    case ParamKind::kInteger:
    case ParamKind::kBool:
      return "";
    case ParamKind::kDtype:
      return value >= SK_F32 && value <= SK_I64 ? dtype_name(DType(value)) : "";
    case ParamKind::kRedop:
      return value >= SK_SUM && value <= SK_AVG ? redop_name(RedOp(value)) : "";
    case ParamKind::kHint:
      return value == kStoreDefault       ? "default"
             : value == kStoreNonTemporal ? "stream"
             : value == kTakeInputs       ? "take"
             : value == kHandOver         ? "hand_over"
                                          : "";
    case ParamKind::kEpilogue:
      return value == kGemmStore     ? "store"
             : value == kGemmPartial ? "partial"
             : value == kGemmReduce  ? "reduce"
                                     : "";
  }
  return "";
}

std::string_view task_op_name(TaskOp op) {
  const TaskInfo* info = task_info(op);
  return info ? info->name : "unknown operation";
}

}  // namespace sk
