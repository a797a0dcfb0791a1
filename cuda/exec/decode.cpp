#include "cuda/exec/decode.h"

#include <cstring>
#include <type_traits>
#include <utility>

#include "cuda/exec/views.h"
#include "cuda/kernel/image.h"
#include "lib/base/article.h"
#include "lib/plan/packed.h"
#include "lib/plan/task_info.h"

namespace sk::cuda {
namespace {

constexpr int64_t kExtentMax = INT32_MAX;  // Places of elements are 32 bits wide, with a sign.

Status check_pointers(const RankPlan& part, const Task& task) {
  uint64_t pointers = 0;
  for (const Region& region : part.regions_of(task)) pointers += region.buffer_count;
  if (pointers <= kPointersMax) return {};
  return error(SK_ERR_UNSUPPORTED, "{} of the plan touches {} buffers, on a GPU at most {} at once",
               with_article(task_op_name(task.op)), pointers, kPointersMax);
}

Status check_extent(TaskOp op, const char* what, int64_t extent) {
  if (extent >= 0 && extent <= kExtentMax) return {};
  return error(SK_ERR_UNSUPPORTED, "{} of the plan has {} {}, on a GPU at most {}",
               with_article(task_op_name(op)), extent, what, kExtentMax);
}

CopyRecord decode_copy(std::span<const Region> regions, StoreHintParam hint) {
  const Region &from = regions[0], &to = regions[1];
  return {from.row_bytes, from.pitch,      to.pitch,
          from.rows,      to.buffer_count, hint == kStoreNonTemporal};
}

ReduceRecord decode_reduce(std::span<const Region> regions, const int64_t* params) {
  ReduceRecord record{};
  const Region& out = regions.back();
  record.inputs = uint8_t(regions.size() - 1);
  for (uint32_t i = 0; i < record.inputs; ++i) {
    record.in_pitch[i] = regions[i].pitch;
    record.in_count[i] = uint8_t(regions[i].buffer_count);
    record.all_in_count = uint8_t(record.all_in_count + regions[i].buffer_count);
  }
  record.dtype = uint8_t(params[kReduceDtype]);
  record.out_dtype = uint8_t(params[kReduceOutDtype]);
  record.op = uint8_t(params[kReduceOp]);
  record.out_pitch = out.pitch;
  record.columns = out.row_bytes / dtype_bytes(DType(record.out_dtype));
  record.rows = out.rows;
  record.out_count = uint8_t(out.buffer_count);
  record.past_caches = params[kReduceHint] == kStoreNonTemporal;
  return record;
}

// The pitch of B's columns follows from the size of the whole, see packed_pitch(); that of some of
// them from theirs, which must come to the same.
Result<PackRecord> decode_pack(const Plan& plan, std::span<const Region> regions,
                               const int64_t* p) {
  SK_RETURN_IF_ERROR(check_gemm_type(DType(p[kPackDtype])));
  const auto k = uint64_t(p[kPackK]), col0 = uint64_t(p[kPackCol0]);
  const uint64_t element = dtype_bytes(DType(p[kPackDtype])),
                 columns = uint64_t(p[kPackCol1]) - col0;
  const Region &from = regions[0], &to = regions[1];
  if (columns != uint64_t(p[kPackN])) {
    const uint64_t pitch = packed_pitch(k, uint64_t(p[kPackN]), element, plan.target.packed_bytes);
    if (to.offset != col0 * pitch || to.row_bytes != columns * pitch) {
      return error(SK_ERR_UNSUPPORTED,
                   "columns {} to {} of {} are packed by themselves into {} bytes at {}; on a GPU "
                   "they have {} at {}",
                   p[kPackCol0], p[kPackCol1], p[kPackN], to.row_bytes, to.offset, columns * pitch,
                   col0 * pitch);
    }
  }
  const bool transposed = p[kPackTransposeB] != 0;
  return PackRecord{col0 * (transposed ? from.pitch : element),
                    from.pitch,
                    packed_pitch(k, columns, element, to.row_bytes),
                    k,
                    columns,
                    uint32_t(element),
                    transposed};
}

Result<GemmRecord> decode_gemm(TaskOp op, std::span<const Region> regions, const int64_t* p,
                               const ProductViews* views) {
  const DType dtype = DType(p[kGemmDtype]);
  SK_RETURN_IF_ERROR(check_gemm_type(dtype));
  const std::pair<const char*, int64_t> extents[] = {{"rows", p[kGemmRows]},
                                                     {"columns", p[kGemmCols]},
                                                     {"elements in a sum", p[kGemmK]},
                                                     {"columns in all", p[kGemmN]}};
  const DType out = DType(p[kGemmOutDtype]);
  if (p[kGemmEpilogue] != kGemmPartial && out != dtype && out != DType::kF32) {
    return error(SK_ERR_UNSUPPORTED, "a product of {} as {} on a GPU; as {} or f32 it may be",
                 dtype_name(dtype), dtype_name(out), dtype_name(dtype));
  }
  for (const auto& [what, extent] : extents) SK_RETURN_IF_ERROR(check_extent(op, what, extent));
  GemmRecord record{};
  record.a_pitch = regions[0].pitch;
  const uint64_t element = dtype_bytes(dtype);
  record.layout_b = layout_of_b(op, p);
  record.b_pitch = op == TaskOp::kGemmRaw ? regions[1].pitch
                                          : packed_pitch(uint64_t(p[kGemmK]), uint64_t(p[kGemmN]),
                                                         element, regions[1].row_bytes);
  record.b_offset =
      uint64_t(p[kGemmCol0]) * (record.layout_b == LayoutB::kRows ? element : record.b_pitch);
  record.rows = uint32_t(p[kGemmRows]);
  record.cols = uint32_t(p[kGemmCols]);
  record.k = uint32_t(p[kGemmK]);
  if (views != nullptr) record.views = *views;
  record.self = uint16_t(p[kGemmSelf]);
  record.dtype = uint8_t(dtype);
  record.out_dtype = uint8_t(p[kGemmOutDtype]);
  record.epilogue = uint8_t(p[kGemmEpilogue]);
  record.transpose_a = p[kGemmTransposeA] != 0;
  if (record.epilogue != kGemmStore) record.partials = uint8_t(regions[2].buffer_count);
  if (record.epilogue == kGemmPartial) return record;
  record.c_pitch = regions.back().pitch;
  record.copies = uint8_t(regions.back().buffer_count);
  return record;
}

Result<TaskRecord> decode_task(const Plan& plan, const RankPlan& part, const Task& task,
                               const ProductViews* views) {
  const std::span<const Region> regions = part.regions_of(task);
  const int64_t* params = part.params_of(task).data();
  TaskRecord record;
  std::memset(&record, 0, sizeof record);  // The gaps too: images of one plan are alike.
  SK_RETURN_IF_ERROR(check_pointers(part, task));
  switch (task.op) {
    case TaskOp::kNop:
    case TaskOp::kEnter:
    case TaskOp::kAwait:
      return record;
    case TaskOp::kPut:
      SK_RETURN_IF_ERROR(check_extent(task.op, "rows", regions[0].rows));
      record.copy = decode_copy(regions, kStoreDefault);
      return record;
    case TaskOp::kCopy:
      SK_RETURN_IF_ERROR(check_extent(task.op, "rows", regions[0].rows));
      record.copy = decode_copy(regions, StoreHintParam(params[kCopyHint]));
      return record;
    case TaskOp::kReduce:
      SK_RETURN_IF_ERROR(check_extent(task.op, "rows", regions[0].rows));
      record.reduce = decode_reduce(regions, params);
      return record;
    case TaskOp::kPackB: {
      SK_ASSIGN_OR_RETURN(record.pack, decode_pack(plan, regions, params));
      return record;
    }
    case TaskOp::kGemm:
    case TaskOp::kGemmRaw: {
      SK_ASSIGN_OR_RETURN(record.gemm, decode_gemm(task.op, regions, params, views));
      return record;
    }
    default:
      return error(SK_ERR_UNSUPPORTED, "no kernel for {} on a GPU yet",
                   with_article(task_op_name(task.op)));
  }
}

}  // namespace

Status check_gemm_type(DType dtype) {
  if (dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16) return {};
  return error(SK_ERR_UNSUPPORTED, "matrices of {} on a GPU; f32, bf16 and f16 are supported",
               dtype_name(dtype));
}

Result<std::vector<TaskRecord>> decode(const Plan& plan, const RankPlan& part,
                                       const std::vector<ProductViews>* views) {
  std::vector<TaskRecord> records;
  records.reserve(part.tasks.size());
  for (size_t i = 0; i < part.tasks.size(); ++i) {
    const ProductViews* const seen = views != nullptr ? &(*views)[i] : nullptr;
    SK_ASSIGN_OR_RETURN(TaskRecord record, decode_task(plan, part, part.tasks[i], seen));
    records.push_back(record);
  }
  return records;
}

Status check_part(const Plan& plan, const RankPlan& part) {
  return std::move(decode(plan, part, nullptr).status());
}

}  // namespace sk::cuda
