// What each operation leaves behind, in terms of contributions.
#include "lib/op/tile_layout.h"
#include "lib/plan/check/accumulate.h"
#include "lib/plan/check/contents.h"
#include "lib/plan/check/operands.h"

namespace sk::check {
namespace {

struct Job {
  const Plan& plan;
  const Where& where;
  const std::vector<TaskInput>& inputs;
  Blobs& blobs;
  Budget& budget;

  std::span<const Region> regions() const { return where.part.regions_of(where.task()); }
  std::span<const int64_t> params() const { return where.part.params_of(where.task()); }
  uint64_t own_hash() const { return rank_hash(where.part.rank); }
};

// Element-wise tasks walk all regions row by row together.
Status check_reduce_shape(const Job& job, DType dtype, DType out_dtype) {
  const std::span<const Region> regions = job.regions();
  const Region& out = regions.back();
  for (size_t i = 0; i < regions.size(); ++i) {
    const uint64_t element = dtype_bytes(i + 1 < regions.size() ? dtype : out_dtype);
    const Region& region = regions[i];
    if (region.offset % element != 0 || region.row_bytes % element != 0 ||
        (region.rows > 1 && region.pitch % element != 0)) {
      return refuse('e', "{}: region {} splits elements of {} bytes", job.where, i, element);
    }
    if (region.rows != out.rows ||
        region.row_bytes / element != out.row_bytes / dtype_bytes(out_dtype)) {
      return refuse('e', "{}: regions {} and {} have different shapes", job.where, i,
                    regions.size() - 1);
    }
  }
  return Status();
}

Result<Stream> reduce_result(const Job& job) {
  const DType dtype = DType(job.params()[kReduceDtype]);
  const DType out_dtype = DType(job.params()[kReduceOutDtype]);
  const RedOp redop = RedOp(job.params()[kReduceOp]);
  if (!reduces_to(dtype, out_dtype) || (redop == RedOp::kAvg && !is_float(dtype))) {
    return refuse('e', "{}: no {} of {} into {}", job.where, redop_name(redop), dtype_name(dtype),
                  dtype_name(out_dtype));
  }
  SK_RETURN_IF_ERROR(check_reduce_shape(job, dtype, out_dtype));
  std::vector<const Stream*> streams;
  for (const TaskInput& input : job.inputs) streams.push_back(&input.content);
  const uint64_t element = dtype_bytes(dtype), out_element = dtype_bytes(out_dtype);
  Walk walk(streams, job.budget);
  Stream out;
  std::vector<Tag> tags(streams.size());
  while (walk.next()) {
    const Piece& first = walk.piece(0);
    for (size_t i = 0; i < walk.size(); ++i) {
      const Piece& piece = walk.piece(i);
      tags[i] = piece.tag;
      if (piece.tag.space == kUndefined) continue;  // join() says so.
      if (piece.row != first.row || piece.column != first.column) {
        return refuse('e', "{} joins element {} of row {} with element {} of row {}", job.where,
                      first.column / element, first.row, piece.column / element, piece.row);
      }
    }
    SK_ASSIGN_OR_RETURN(const Tag tag, join(tags, redop, dtype, out_dtype, job.where));
    if (first.column % element != 0 || walk.bytes() % element != 0) {
      return refuse('e', "{} splits an element", job.where);
    }
    append(out, {.tag = tag,
                 .rows = walk.rows(),
                 .bytes = walk.bytes() / element * out_element,
                 .row = first.row,
                 .column = first.column / element * out_element});
  }
  return out;
}

Stream matrix(Space space, uint64_t hash, DType dtype, uint64_t row0, uint64_t rows, uint64_t col0,
              uint64_t cols) {
  const uint64_t element = dtype_bytes(dtype);
  Stream out;
  append(out, {.tag = {.space = space, .ranks = hash, .dtype = dtype},
               .rows = rows,
               .bytes = cols * element,
               .row = row0,
               .column = col0 * element});
  return out;
}

Status check_gemm_op(const Job& job, bool matches) {
  if (job.plan.op.kind == OpKind::kAllreduceGemm && matches) return Status();
  return refuse('e', "{} has sizes, types or transposes that are not those of {}", job.where,
                sk::describe(job.plan.op));
}

bool has_shape(const Region& region, uint64_t rows, uint64_t row_bytes) {
  return region.rows == rows && region.row_bytes == row_bytes;
}

// Kernels count rows in elements, and stores past the caches need whole lines.
Status check_elements(const Job& job, size_t index, DType dtype) {
  const uint64_t element = dtype_bytes(dtype);
  const Region& region = job.regions()[index];
  if (region.offset % element == 0 && (region.rows <= 1 || region.pitch % element == 0)) {
    return Status();
  }
  return refuse('e', "{}: region {} splits elements of {} bytes", job.where, index, element);
}

Status check_line(const Job& job, size_t index, const char* what) {
  const Region& region = job.regions()[index];
  if (region.rows == 1 && region.offset % kTileLayoutAlign == 0) return Status();
  return refuse('e', "{}: {} is one row that begins at a multiple of {} bytes, not {} at {}",
                job.where, what, kTileLayoutAlign, region.rows, region.offset);
}

// No kernel packs `columns` columns of B into less.
Status check_packed_bytes(const Job& job, const Region& packed, uint64_t columns) {
  uint64_t least = 0;
  const bool overflow = __builtin_mul_overflow(columns, uint64_t(job.plan.op.k), &least) ||
                        __builtin_mul_overflow(least, dtype_bytes(job.plan.op.dtype), &least);
  if (!overflow && packed.row_bytes >= least) return Status();
  return refuse('e', "{}: {} bytes hold no {} packed columns of {} elements", job.where,
                packed.row_bytes, columns, job.plan.op.k);
}

Result<Stream> pack_result(const Job& job) {
  const OpDesc& op = job.plan.op;
  const std::span<const int64_t> p = job.params();
  SK_RETURN_IF_ERROR(check_gemm_op(job, op.pack_b && p[kPackDtype] == int64_t(op.dtype) &&
                                            p[kPackTransposeB] == int64_t(op.transpose_b) &&
                                            p[kPackK] == op.k && p[kPackN] == op.n &&
                                            p[kPackCol0] < p[kPackCol1] && p[kPackCol1] <= op.n));
  const uint64_t rows = uint64_t(op.transpose_b ? op.n : op.k);
  const uint64_t cols = uint64_t(op.transpose_b ? op.k : op.n);
  if (op.k > 0) {
    const Stream whole = matrix(kMatrixB, job.own_hash(), op.dtype, 0, rows, 0, cols);
    if (!has_shape(job.regions()[0], rows, cols * dtype_bytes(op.dtype)) ||
        job.inputs.size() != 1 || !same(job.inputs[0].content, whole, job.budget)) {
      return refuse('e', "{}: its source is not the whole of B", job.where);
    }
  }
  const Region& packed = job.regions()[1];
  SK_RETURN_IF_ERROR(check_line(job, 1, "packed B"));
  SK_RETURN_IF_ERROR(check_packed_bytes(job, packed, uint64_t(p[kPackCol1] - p[kPackCol0])));
  const Blob blob{.packed = true,
                  .col0 = uint64_t(p[kPackCol0]),
                  .cols = uint64_t(p[kPackCol1] - p[kPackCol0]),
                  .bytes = packed.rows * packed.row_bytes};
  return Stream{
      {.tag = {.space = job.blobs.space_of(blob), .ranks = job.own_hash(), .dtype = op.dtype},
       .bytes = blob.bytes}};
}

// All of B, packed, in the order of its columns.
Status check_packed(const Job& job, const Stream& content) {
  uint64_t column = 0;
  for (const Piece& piece : content) {
    const Blob* blob = job.blobs.of(piece.tag.space);
    if (blob == nullptr || !blob->packed || piece.tag.ranks != job.own_hash() ||
        piece.column != 0 || piece.bytes != blob->bytes || blob->col0 != column) {
      return refuse('e', "{}: b is not the packed B of its rank, behind column {}", job.where,
                    column);
    }
    column += blob->cols;
  }
  if (column == uint64_t(job.plan.op.n)) return Status();
  return refuse('e', "{}: b ends at column {} of {}", job.where, column, job.plan.op.n);
}

// Its rows of A and all of packed B, where the product has any elements to add.
Status check_factors(const Job& job, uint64_t row0, uint64_t rows) {
  const OpDesc& op = job.plan.op;
  const std::span<const Region> regions = job.regions();
  if (op.k == 0) return Status();
  const uint64_t k = uint64_t(op.k), element = dtype_bytes(op.dtype);
  const Stream a = op.transpose_a ? matrix(kMatrixA, job.own_hash(), op.dtype, 0, k, row0, rows)
                                  : matrix(kMatrixA, job.own_hash(), op.dtype, row0, rows, 0, k);
  const bool shape = op.transpose_a ? has_shape(regions[0], k, rows * element)
                                    : has_shape(regions[0], rows, k * element);
  if (!shape || job.inputs.empty() || job.inputs[0].region != 0 ||
      !same(job.inputs[0].content, a, job.budget)) {
    return refuse('e', "{}: a is not rows {} to {} of its rank's A", job.where, row0,
                  row0 + rows - 1);
  }
  if (job.inputs.size() < 2 || job.inputs[1].region != 1) {
    return refuse('e', "{} reads no packed B", job.where);
  }
  SK_RETURN_IF_ERROR(check_packed(job, job.inputs[1].content));
  SK_RETURN_IF_ERROR(check_elements(job, 0, op.dtype));
  SK_RETURN_IF_ERROR(check_line(job, 1, "packed B"));
  SK_RETURN_IF_ERROR(check_packed_bytes(job, regions[1], uint64_t(op.n)));
  // Kernels count A from its first row, which lies so far before the tile's.
  uint64_t before = 0;
  if (__builtin_mul_overflow(row0, regions[0].pitch, &before) || before >= uint64_t(1) << 48) {
    return refuse('e', "{}: {} rows of a with pitch {} lie before the tile", job.where, row0,
                  regions[0].pitch);
  }
  return Status();
}

Result<Stream> gemm_result(const Job& job) {
  const OpDesc& op = job.plan.op;
  const std::span<const int64_t> p = job.params();
  const std::span<const Region> regions = job.regions();
  const DType sum = accumulator(op.dtype);
  const uint64_t row0 = uint64_t(p[kGemmRow0]), rows = uint64_t(p[kGemmRows]);
  const uint64_t col0 = uint64_t(p[kGemmCol0]), cols = uint64_t(p[kGemmCols]);
  SK_RETURN_IF_ERROR(check_gemm_op(
      job, p[kGemmDtype] == int64_t(op.dtype) && p[kGemmTransposeA] == int64_t(op.transpose_a) &&
               p[kGemmM] == op.m && p[kGemmN] == op.n && p[kGemmK] == op.k &&
               row0 + rows <= uint64_t(op.m) && col0 + cols <= uint64_t(op.n) &&
               (p[kGemmOutDtype] == int64_t(op.out_dtype) || p[kGemmOutDtype] == int64_t(sum))));
  size_t next = 0;
  SK_RETURN_IF_ERROR(check_factors(job, row0, rows));
  while (next < job.inputs.size() && job.inputs[next].region < 2) ++next;

  const bool partial = p[kGemmEpilogue] == kGemmPartial, reduce = p[kGemmEpilogue] == kGemmReduce;
  const Region& third = regions[2];
  Blob blob{false, row0, rows, col0, cols, third.rows * third.row_bytes};
  if (partial || reduce) {
    SK_RETURN_IF_ERROR(check_line(job, 2, "a partial tile"));
    const uint64_t least = partial_tile_bytes(rows, cols, dtype_bytes(sum));
    if (blob.bytes < least) {
      return refuse('e', "{}: {} bytes hold no partial tile of {} x {}, which takes {}", job.where,
                    blob.bytes, rows, cols, least);
    }
  }
  const uint64_t space = job.blobs.space_of(blob);
  if (partial) {
    return Stream{
        {.tag = {.space = space, .ranks = job.own_hash(), .dtype = sum}, .bytes = blob.bytes}};
  }
  const DType out_dtype = DType(p[kGemmOutDtype]);
  if (!has_shape(regions.back(), rows, cols * dtype_bytes(out_dtype))) {
    return refuse('e', "{}: c is no tile of {} x {}", job.where, rows, cols);
  }
  SK_RETURN_IF_ERROR(check_elements(job, regions.size() - 1, out_dtype));
  Tag tag{.space = kProduct, .ranks = job.own_hash(), .dtype = out_dtype};
  tag.rounded = out_dtype != sum;
  if (reduce) {
    tag.count = third.buffer_count;
    tag.redop = tag.count > 1 ? uint8_t(RedOp::kSum) : uint8_t(0);
    tag.ranks = 0;
    if (p[kGemmSelf] >= int64_t(tag.count)) {
      return refuse('e', "{}: self is {} of {}", job.where, p[kGemmSelf], tag.count);
    }
    for (uint32_t i = 0; i < tag.count; ++i) {
      uint64_t hash = job.own_hash();
      if (int64_t(i) != p[kGemmSelf]) {
        const Stream& content = job.inputs[next++].content;
        if (content.size() != 1 || content[0].tag.space != space || content[0].column != 0 ||
            content[0].bytes != blob.bytes) {
          return refuse('e', "{}: entry {} of its partials is not this tile's", job.where, i);
        }
        hash = content[0].tag.ranks;
      }
      tag.ranks += hash * position_factor(i);
    }
  }
  return Stream{{.tag = tag,
                 .rows = rows,
                 .bytes = cols * dtype_bytes(out_dtype),
                 .row = row0,
                 .column = col0 * dtype_bytes(out_dtype)}};
}

}  // namespace

Result<Stream> task_result(const Plan& plan, const Where& where,
                           const std::vector<TaskInput>& inputs, Blobs& blobs, Budget& budget) {
  const Job job{plan, where, inputs, blobs, budget};
  switch (where.task().op) {
    case TaskOp::kReduce:
      return reduce_result(job);
    case TaskOp::kPackB:
      return pack_result(job);
    case TaskOp::kGemm:
      return gemm_result(job);
    case TaskOp::kCopy:
    case TaskOp::kPut:  // Row by row.
      if (!has_shape(job.regions()[1], job.regions()[0].rows, job.regions()[0].row_bytes)) {
        return refuse('e', "{}: its regions have different shapes", where);
      }
      return inputs.empty() ? Stream() : inputs[0].content;
    case TaskOp::kNop:
    case TaskOp::kEnter:
    case TaskOp::kAwait:
      break;
  }
  return refuse('e', "{}: nothing is known of what it leaves in its regions", where);
}

}  // namespace sk::check
