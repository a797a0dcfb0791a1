#include "lib/exec/tile_op.h"

#include <cmath>
#include <cstring>
#include <string_view>
#include <vector>

#include "lib/op/dtype.h"
#include "lib/plan/packed.h"
#include "lib/plan/task_info.h"

namespace sk {
namespace {

template <typename T>
T load_as(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <typename T>
void store_as(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

template <typename Sum>
Sum load(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kF32:
      return Sum(load_as<float>(at));
    case DType::kF64:
      return Sum(load_as<double>(at));
    case DType::kBF16:
      return Sum(bf16_to_f32(load_as<uint16_t>(at)));
    case DType::kF16:
      return Sum(f16_to_f32(load_as<uint16_t>(at)));
    case DType::kI32:
      return Sum(load_as<int32_t>(at));
    case DType::kI64:
      return Sum(load_as<int64_t>(at));
  }
  return Sum();
}

template <typename Sum>
void store(DType dtype, std::byte* at, Sum value) {
  switch (dtype) {
    case DType::kF32:
      return store_as(at, float(value));
    case DType::kF64:
      return store_as(at, double(value));
    case DType::kBF16:
      return store_as(at, f32_to_bf16(float(value)));
    case DType::kF16:
      return store_as(at, f32_to_f16(float(value)));
    case DType::kI32:
      return store_as(at, int32_t(value));
    case DType::kI64:
      return store_as(at, int64_t(value));
  }
}

// Integers wrap around, so their sums and products are made without signs.
template <typename Sum>
Sum join(RedOp op, Sum a, Sum b) {
  if constexpr (std::is_integral_v<Sum>) {
    if (op == RedOp::kSum) return Sum(uint64_t(a) + uint64_t(b));
    if (op == RedOp::kProd) return Sum(uint64_t(a) * uint64_t(b));
  } else {
    if (op == RedOp::kSum || op == RedOp::kAvg) return a + b;
    if (op == RedOp::kProd) return a * b;
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<Sum>::quiet_NaN();
  }
  return op == RedOp::kMin ? (b < a ? b : a) : (a < b ? b : a);
}

template <typename Sum>
void reduce(const TileArgs& args) {
  const DType dtype = DType(args.params[kReduceDtype]);
  const DType out_dtype = DType(args.params[kReduceOutDtype]);
  const RedOp op = RedOp(args.params[kReduceOp]);
  const uint32_t inputs = args.region_count - 1;
  const Region& out = args.regions[inputs];
  const uint64_t columns = out.row_bytes / dtype_bytes(out_dtype);
  for (uint64_t row = 0; row < out.rows; ++row) {
    for (uint64_t column = 0; column < columns; ++column) {
      Sum sum = Sum();
      uint32_t count = 0;
      for (uint32_t i = 0; i < inputs; ++i) {
        for (uint32_t j = 0; j < args.regions[i].buffer_count; ++j) {
          const Sum value = load<Sum>(dtype, args.pointers[i][j] + row * args.regions[i].pitch +
                                                 column * dtype_bytes(dtype));
          sum = count++ == 0 ? value : join(op, sum, value);
        }
      }
      if (op == RedOp::kAvg) sum /= Sum(count);
      for (uint32_t j = 0; j < out.buffer_count; ++j) {
        store(out_dtype,
              args.pointers[inputs][j] + row * out.pitch + column * dtype_bytes(out_dtype), sum);
      }
    }
  }
}

void run_reduce(const TileArgs& args) {
  const DType dtype = DType(args.params[kReduceDtype]);
  if (!is_float(dtype)) return reduce<int64_t>(args);
  if (dtype == DType::kF64) return reduce<double>(args);
  reduce<float>(args);
}

void run_copy(const TileArgs& args) {
  const Region &src = args.regions[0], &dst = args.regions[1];
  for (uint32_t j = 0; j < dst.buffer_count; ++j) {
    for (uint64_t row = 0; row < src.rows; ++row) {
      std::memcpy(args.pointers[1][j] + row * dst.pitch, args.pointers[0][0] + row * src.pitch,
                  src.row_bytes);
    }
  }
}

// The reference's packed B: column after column (packed.h); a task has some of them.
void run_pack_b(const TileArgs& args) {
  const uint64_t element = dtype_bytes(DType(args.params[kPackDtype]));
  const uint64_t k = uint64_t(args.params[kPackK]), from_pitch = args.regions[0].pitch;
  const uint64_t first = uint64_t(args.params[kPackCol0]);
  const uint64_t columns = uint64_t(args.params[kPackCol1]) - first;
  const uint64_t pitch = packed_pitch(k, columns, element, args.regions[1].row_bytes);
  for (uint64_t column = 0; column < columns; ++column) {
    for (uint64_t i = 0; i < k; ++i) {
      const uint64_t at = args.params[kPackTransposeB]
                              ? (first + column) * from_pitch + i * element
                              : i * from_pitch + (first + column) * element;
      std::memcpy(args.pointers[1][0] + column * pitch + i * element, args.pointers[0][0] + at,
                  element);
    }
  }
}

// A partial tile of the reference: rows * cols accumulators, row after row.
template <typename Sum>
void gemm(const TileArgs& args) {
  const int64_t* p = args.params;
  const DType dtype = DType(p[kGemmDtype]), out_dtype = DType(p[kGemmOutDtype]);
  const uint64_t element = dtype_bytes(dtype), k = uint64_t(p[kGemmK]);
  const uint64_t rows = uint64_t(p[kGemmRows]), cols = uint64_t(p[kGemmCols]);
  const Region& a = args.regions[0];
  const uint64_t b_pitch = packed_pitch(k, uint64_t(p[kGemmN]), element, args.regions[1].row_bytes);
  const std::byte* b = args.pointers[1][0] + uint64_t(p[kGemmCol0]) * b_pitch;
  for (uint64_t row = 0; row < rows; ++row) {
    for (uint64_t column = 0; column < cols; ++column) {
      Sum product = Sum();
      for (uint64_t i = 0; i < k; ++i) {
        const uint64_t at =
            p[kGemmTransposeA] ? i * a.pitch + row * element : row * a.pitch + i * element;
        product += load<Sum>(dtype, args.pointers[0][0] + at) *
                   load<Sum>(dtype, b + column * b_pitch + i * element);
      }
      const uint64_t place = (row * cols + column) * sizeof(Sum);
      if (p[kGemmEpilogue] == kGemmPartial) {
        store_as(args.pointers[2][0] + place, product);
        continue;
      }
      Sum sum = product;
      if (p[kGemmEpilogue] == kGemmReduce) {
        for (uint32_t j = 0; j < args.regions[2].buffer_count; ++j) {
          const Sum value =
              int64_t(j) == p[kGemmSelf] ? product : load_as<Sum>(args.pointers[2][j] + place);
          sum = j == 0 ? value : sum + value;
        }
      }
      const uint32_t last = args.region_count - 1;
      const Region& c = args.regions[last];
      for (uint32_t j = 0; j < c.buffer_count; ++j) {
        store(out_dtype, args.pointers[last][j] + row * c.pitch + column * dtype_bytes(out_dtype),
              sum);
      }
    }
  }
}

void run_gemm(const TileArgs& args) {
  if (DType(args.params[kGemmDtype]) == DType::kF64) return gemm<double>(args);
  gemm<float>(args);
}

TileFn reference_of(TaskOp op) {
  switch (op) {
    case TaskOp::kNop:
    case TaskOp::kEnter:
    case TaskOp::kAwait:
      return nullptr;
    case TaskOp::kPut:
    case TaskOp::kCopy:
      return run_copy;
    case TaskOp::kReduce:
      return run_reduce;
    case TaskOp::kPackB:
      return run_pack_b;
    case TaskOp::kGemm:
      return run_gemm;
  }
  return nullptr;
}

const std::vector<TileOp>& table() {
  static const std::vector<TileOp> kTable = [] {
    std::vector<TileOp> made;
    for (uint32_t op = 0; op < kTaskOpCount; ++op) {
      const TaskInfo& info = *task_info(TaskOp(op));
      made.push_back({info.op, info.name, info.region_count_min, info.region_count_max,
                      uint8_t(info.params.size()), reference_of(info.op)});
    }
    return made;
  }();
  return kTable;
}

}  // namespace

const TileOp* tile_op(TaskOp op) {
  return uint32_t(op) < kTaskOpCount ? &table()[uint32_t(op)] : nullptr;
}

const TileOp* tile_op(const char* name) {
  for (const TileOp& record : table()) {
    if (std::string_view(record.name) == name) return &record;
  }
  return nullptr;
}

}  // namespace sk
