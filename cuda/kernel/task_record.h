// What a task is to a kernel: a record of fixed fields for each kind of tile, decoded by the host
// (cuda/exec/decode.h), which has checked that everything fits. Device code reads the fields.
//
// Next to a record lie the task's addresses, those of its regions one after the other.
#ifndef SK_CUDA_KERNEL_TASK_RECORD_H_
#define SK_CUDA_KERNEL_TASK_RECORD_H_

#include <cstdint>

#include "lib/plan/task.h"

namespace sk::cuda {

// kCopy and kPut. Addresses: from where, then to where, so many.
struct CopyRecord {
  uint64_t row_bytes, from_pitch, to_pitch;
  uint32_t rows, to_count;
  uint32_t past_caches;  // Not 0: what is stored is not looked at again soon.
};

inline constexpr uint32_t kReduceInputsMax = kRepeatedRegionsMax - 1;

// kReduce. Addresses: all inputs, input by input, then all outputs.
struct ReduceRecord {
  uint64_t in_pitch[kReduceInputsMax];
  uint64_t out_pitch, columns;
  uint32_t rows;
  uint8_t in_count[kReduceInputsMax];  // Addresses of each input,
  uint8_t inputs, all_in_count;        // of so many inputs; of all of them.
  uint8_t out_count;
  uint8_t dtype, out_dtype, op;  // DType, RedOp.
  uint8_t past_caches;           // As in CopyRecord.
};

// kPackB: columns of B. Addresses: all of B, the first packed column.
struct PackRecord {
  uint64_t from_offset;  // Of the first column.
  uint64_t from_pitch, pitch;
  uint64_t k, columns;
  uint32_t element_bytes, transposed;
};

// What a product reads through the copy engine: places in the launch's table of views, and the
// first rows there. Of B's those are columns of B.
struct ProductViews {
  uint16_t a, b;
  uint32_t a_row, b_row;
};

constexpr bool is_gemm(TaskOp op) { return op == TaskOp::kGemm || op == TaskOp::kGemmRaw; }

// How B lies: packed or [n, k], elements of a column are neighbours; [k, n], those of a row.
enum class LayoutB : uint8_t { kColumns, kRows };

// kGemm and kGemmRaw. Addresses: A, B, partial tiles where there are any, C.
struct GemmRecord {
  uint64_t a_pitch, b_pitch, c_pitch;  // B's: from column to column, or from row to row.
  uint64_t b_offset;                   // Of the tile's first column.
  uint32_t rows, cols, k;
  ProductViews views;
  uint16_t self;             // Whose partial tile this product is.
  uint8_t partials, copies;  // Addresses of partial tiles, and of C.
  uint8_t dtype, out_dtype;  // DType.
  uint8_t epilogue;          // GemmEpilogue.
  uint8_t transpose_a;
  LayoutB layout_b;
};

// By the task's operation; of what has no tile it is empty.
union TaskRecord {
  CopyRecord copy;
  ReduceRecord reduce;
  PackRecord pack;
  GemmRecord gemm;
};
static_assert(sizeof(TaskRecord) == 72);

}  // namespace sk::cuda

#endif  // SK_CUDA_KERNEL_TASK_RECORD_H_
