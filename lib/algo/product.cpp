#include "lib/algo/product.h"

#include <algorithm>

namespace sk::algo {
namespace {

// Bands of several rows of tiles where the tiles of all workers at one time are several rows of C.
constexpr uint32_t kBandWorkers = 32, kBandRows = 8;

constexpr uint64_t kLine = 64;

uint32_t band_rows(const Target& target) {
  if (target.band_rows != 0) return target.band_rows;
  return target.workers < kBandWorkers ? 1 : kBandRows;
}

uint32_t tiles_along(int64_t size, uint32_t tile) {
  return uint32_t((uint64_t(size) + tile - 1) / tile);
}

// Bytes from the first to the last element of rows that lie `stride` elements apart.
uint64_t span_bytes(uint64_t rows, uint64_t cols, int64_t stride, uint64_t element_bytes) {
  return rows == 0 || cols == 0 ? 0 : ((rows - 1) * uint64_t(stride) + cols) * element_bytes;
}

}  // namespace

bool packs(const GemmCall& call, const Target& target) { return call.pack_b && !target.raw_b; }

bool packs_by_all(const GemmCall& call, const Target& target) {
  return packs(call, target) && target.packed_pitch != 0;
}

Product product_of(const GemmCall& call, uint32_t parts) {
  return {.dtype = call.dtype,
          .m = call.m,
          .n = call.n,
          .k = call.k,
          .parts = parts,
          .lda = call.lda,
          .transpose_a = call.transpose_a,
          .ldb = call.pack_b ? call.ldb : 0,
          .transpose_b = call.transpose_b};
}

Tiles::Tiles(const Target& target, int64_t m, int64_t n)
    : m_(uint64_t(m)),
      n_(uint64_t(n)),
      tile_m_(target.tile_m),
      tile_n_(target.tile_n),
      order_{tiles_along(m, target.tile_m), tiles_along(n, target.tile_n), band_rows(target)} {}

Tile Tiles::operator[](uint32_t index) const {
  const TilePlace place = order_.place(index);
  const uint64_t row0 = place.row * tile_m_, col0 = place.col * tile_n_;
  return {index, row0, std::min(tile_m_, m_ - row0), col0, std::min(tile_n_, n_ - col0)};
}

uint32_t Factors::add_a(BufferAccess access) {
  const uint64_t rows = uint64_t(call_.transpose_a ? call_.k : call_.m);
  const uint64_t cols = uint64_t(call_.transpose_a ? call_.m : call_.k);
  return layout_.add_operand(BufferKind::kInput, access, GemmCall::kA,
                             span_bytes(rows, cols, call_.lda, layout_.element_bytes()));
}

uint32_t Factors::add_c(BufferAccess access, uint64_t rows) {
  return layout_.add_operand(BufferKind::kOutput, access, GemmCall::kC,
                             span_bytes(rows, uint64_t(call_.n), call_.ldc, out_element_bytes()));
}

void Factors::add_b() {
  const uint64_t packed = layout_.target().packed_bytes;
  if (!call_.pack_b) {
    b_ = layout_.add_operand(BufferKind::kInput, BufferAccess::kLocal, GemmCall::kB, packed);
    return;
  }
  const uint64_t rows = uint64_t(call_.transpose_b ? call_.n : call_.k);
  const uint64_t cols = uint64_t(call_.transpose_b ? call_.k : call_.n);
  raw_b_ = layout_.add_operand(BufferKind::kInput, BufferAccess::kLocal, GemmCall::kB,
                               span_bytes(rows, cols, call_.ldb, layout_.element_bytes()));
  if (packs()) b_ = layout_.add_workspace(BufferAccess::kLocal, packed);
}

Region Factors::a(uint32_t buffer, uint64_t pitch, uint64_t row0, uint64_t rows) const {
  const uint64_t es = layout_.element_bytes(), k = uint64_t(call_.k);
  if (k == 0) return {0, 0, pitch, 1, buffer, 1, kRead};  // Nothing of A is read.
  if (call_.transpose_a) return {row0 * es, rows * es, pitch, uint32_t(k), buffer, 1, kRead};
  return {row0 * pitch, k * es, pitch, uint32_t(rows), buffer, 1, kRead};
}

Region Factors::c(uint32_t buffer, const Tile& tile, uint32_t buffer_count) const {
  const uint64_t es = out_element_bytes(), pitch = uint64_t(call_.ldc) * es;
  return {tile.row0 * pitch + tile.col0 * es,
          tile.cols * es,
          pitch,
          uint32_t(tile.rows),
          buffer,
          buffer_count,
          kWrite};
}

StoreHintParam Factors::store_hint(uint64_t rows) const {
  const uint64_t bytes = rows * uint64_t(call_.n) * out_element_bytes();
  return bytes >= layout_.target().stream_bytes ? kStoreNonTemporal : kStoreDefault;
}

void Factors::pack_by(uint32_t queues, uint32_t first_lane) {
  queues_ = queues;
  first_lane_ = first_lane;
}

bool Factors::is_packed_by_all() const {
  return packs_by_all(call_, layout_.target()) && queues_ > 1;
}

uint32_t Factors::posts(uint32_t lane) const {
  if (lane == packed_lane()) return packs() ? 1 : 0;
  return packed_by(lane - share_lane(0)).count != 0 ? 1 : 0;
}

// The columns that a queue packs. They are cut at whole lines of B's rows.
Slice Factors::packed_by(uint32_t queue) const {
  const auto n = uint64_t(call_.n);
  if (!is_packed_by_all()) return queue == 0 ? Slice{0, n} : Slice{};
  return slice_of(n, queues_, queue, line_elements(call_.dtype));
}

// Where all pack, the first queue waits for the others and tells them: a table of waits for each
// queue would grow with their number squared.
void Factors::pack(Part& part, uint32_t queue) const {
  if (!packs()) return;
  pack_columns(part, queue);
  const Post packed = part.to(part.rank(), packed_lane());
  if (queue != 0 || !is_packed_by_all()) {
    const Wait all = part.from(part.rank(), packed_lane(), 1);
    return part.nop(queue, {&all, 1});
  }
  std::vector<Wait> waits;
  for (uint32_t each = 0; each < queues_; ++each)
    if (packed_by(each).count != 0) waits.push_back(part.from(part.rank(), share_lane(each), 1));
  part.nop(queue, waits, {&packed, 1});
}

// All of it. Without k there is nothing to read, but the packed B is written all the same.
Region Factors::raw_b(uint32_t buffer) const {
  const uint64_t es = layout_.element_bytes();
  const auto rows = uint64_t(call_.k == 0 ? 1 : call_.transpose_b ? call_.n : call_.k);
  const auto cols = uint64_t(call_.k == 0 ? 0 : call_.transpose_b ? call_.k : call_.n);
  return {0, cols * es, uint64_t(call_.ldb) * es, uint32_t(rows), buffer, 1, kRead};
}

void Factors::pack_columns(Part& part, uint32_t queue) const {
  const Slice columns = packed_by(queue);
  if (columns.count == 0) return;
  const uint32_t rank = part.rank();
  const uint64_t pitch = layout_.target().packed_pitch;
  int64_t params[kPackParamCount] = {};
  params[kPackDtype] = int64_t(call_.dtype);
  params[kPackTransposeB] = call_.transpose_b;
  params[kPackK] = call_.k;
  params[kPackN] = call_.n;
  params[kPackCol0] = int64_t(columns.begin);
  params[kPackCol1] = int64_t(columns.begin + columns.count);
  const Region packed_columns =
      pitch == 0 ? flat(b_ + rank, 0, layout_.target().packed_bytes, kWrite)
                 : flat(b_ + rank, columns.begin * pitch, columns.count * pitch, kWrite);
  const Post packed = part.to(rank, is_packed_by_all() ? share_lane(queue) : packed_lane());
  part.builder().add({.op = TaskOp::kPackB,
                      .queue = queue,
                      .regions = {raw_b(raw_b_ + rank), packed_columns},
                      .params = params,
                      .posts = {&packed, 1}});
}

void Factors::multiply(Part& part, const Gemm& gemm) const {
  const uint32_t rank = part.rank();
  const Tile& tile = gemm.tile;
  const bool raw = call_.pack_b && !packs();
  int64_t params[kGemmRawParamCount] = {};
  params[kGemmDtype] = int64_t(call_.dtype);
  params[kGemmOutDtype] = int64_t(gemm.out_dtype.value_or(call_.out_dtype));
  params[kGemmTransposeA] = call_.transpose_a;
  params[kGemmM] = int64_t(gemm.m);
  params[kGemmN] = call_.n;
  params[kGemmK] = call_.k;
  params[kGemmRow0] = int64_t(tile.row0);
  params[kGemmRows] = int64_t(tile.rows);
  params[kGemmCol0] = int64_t(tile.col0);
  params[kGemmCols] = int64_t(tile.cols);
  params[kGemmEpilogue] = gemm.epilogue;
  params[kGemmSelf] = gemm.epilogue == kGemmReduce ? rank : 0;
  params[kGemmHint] = gemm.hint;
  params[kGemmRawTransposeB] = call_.transpose_b;
  const std::span<const int64_t> all(params, raw ? kGemmRawParamCount : kGemmParamCount);
  const Region b =
      raw ? raw_b(raw_b_ + rank) : flat(b_ + rank, 0, layout_.target().packed_bytes, kRead);
  const auto add = [&](std::initializer_list<Region> regions) {
    part.builder().add({.op = raw ? TaskOp::kGemmRaw : TaskOp::kGemm,
                        .queue = gemm.queue,
                        .posts_in_order = !gemm.posts.empty(),
                        .regions = regions,
                        .params = all,
                        .waits = gemm.waits,
                        .posts = gemm.posts});
  };
  const Region* out = gemm.outputs.begin();
  if (gemm.outputs.size() == 1) {
    add({gemm.a, b, out[0]});
  } else {
    add({gemm.a, b, out[0], out[1]});
  }
}

uint64_t put_bytes_of(const Target& target) {
  const uint64_t most = target.put_bytes_max;
  return most < kLine ? most : most / kLine * kLine;
}

void put_row(Part& part, uint32_t queue, const Region& src, const Region& dst, Post post,
             bool after_all, uint64_t put_bytes) {
  const uint64_t bytes = src.row_bytes;
  uint32_t left = post.add;
  for (uint64_t at = 0; at < bytes; at += put_bytes) {
    const uint64_t size = std::min(put_bytes, bytes - at);
    post.add = at + size == bytes ? left : 1;
    left -= post.add;
    part.builder().add({.op = TaskOp::kPut,
                        .queue = queue,
                        .after_all = after_all && at == 0,
                        .regions = {flat(src.buffer, src.offset + at, size, kRead),
                                    flat(dst.buffer, dst.offset + at, size, kWrite)},
                        .posts = {&post, 1}});
  }
}

}  // namespace sk::algo
