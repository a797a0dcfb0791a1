// GEMM, then all-reduce, overlapped: every rank first computes the tiles that its peers own and
// leaves them as partial tiles, then its own tiles, whose epilogue adds the peers' partials in rank
// order and stores the rounded sum. By then the peers' partials have long arrived, so the reduction
// hides behind the products, and no pass over C is added.
//
// direct   (C mapped)   the epilogue stores into every rank's C
// staged   (else)       it stores into result tiles, which each rank copies to its C; where nothing
//                       is mapped, partials and results travel as puts
//
// Source of the scheme: the fused two-process prototype behind the project's performance notes.
#include "lib/op/ops/allreduce_gemm.h"

#include <algorithm>

#include "lib/algo/ops.h"
#include "lib/algo/part.h"
#include "lib/plan/tile_order.h"

namespace sk::algo {
namespace {

// Bands of several rows of tiles where the tiles of all workers at one time are several rows of C.
constexpr uint32_t kBandWorkers = 32, kBandRows = 8;

uint32_t band_rows(const Target& target) {
  if (target.band_rows != 0) return target.band_rows;
  return target.workers < kBandWorkers ? 1 : kBandRows;
}

struct Tile {
  uint32_t index;  // In the order in which tiles are begun.
  uint64_t row0, rows, col0, cols;
};

class AllreduceGemm {
 public:
  AllreduceGemm(const OpDesc& desc, const Target& target)
      : layout_(desc, target), op_(gemm_call(desc)) {
    blocks_ = target.mapped ? 1 : kPutBlocks;
    // Puts are one thread's business, so plans of puts have one queue.
    const uint32_t workers = target.mapped ? target.workers : 1;
    queues_ = std::clamp<uint32_t>(workers, 1, std::max(1u, tile_count() / layout_.ranks()));
    const uint32_t per_queue = 2 * blocks_ + (op_.pack_b && target.packed_pitch != 0 ? 1 : 0);
    queues_ = std::clamp<uint32_t>((layout_.lanes_max() - 1) / per_queue, 1, queues_);
    direct_ = target.world_size == 1 || (target.mapped && op_.symmetric_out);
    if (!target.mapped) {
      const uint64_t most = target.put_bytes_max;
      put_bytes_ = most < kLine ? most : most / kLine * kLine;
      const uint64_t widest = std::max(sum_element_bytes(), out_element_bytes());
      tile_posts_ = uint32_t((slot_elements() * widest - 1) / put_bytes_ + 1);
    }
    add_buffers();
  }

  Plan plan(Ranks ranks) {
    std::vector<RankPlan> parts;
    for (const uint32_t rank : ranks) parts.push_back(part_of(rank));
    return layout_.finish(std::move(parts));
  }

 private:
  // Tiles that are stored are counted per producing queue, each one behind the ones before
  // (after_all). Tiles that are put arrive in any order: they are counted in blocks, and a block is
  // waited for as a whole. A tile that is put counts as many as the puts that the largest one
  // takes: a smaller one's last put makes up for those it lacks. A group is a queue or a block.
  // Lanes: partial tiles for this rank by group; finished tiles of the producer's by group; B is
  // packed (to the own rank); a queue's share of it is, where all pack.
  uint32_t groups() const { return queues_ * blocks_; }
  uint32_t partial_lane(uint32_t group) const { return group; }
  uint32_t done_lane(uint32_t group) const { return groups() + group; }
  uint32_t packed_lane() const { return 2 * groups(); }
  uint32_t share_lane(uint32_t queue) const { return packed_lane() + 1 + queue; }

  uint32_t group_of(uint32_t owner, uint64_t t) const {
    return uint32_t(blocks_ == 1 ? t % queues_ : t * blocks_ / tiles_of(owner).count);
  }
  // Of the tiles of `owner`, those in `group`.
  uint32_t tiles_in(uint32_t owner, uint32_t group) const {
    const uint64_t count = tiles_of(owner).count;
    if (blocks_ == 1) return uint32_t(count > group ? (count - group - 1) / queues_ + 1 : 0);
    const auto first = [&](uint64_t block) { return (block * count + blocks_ - 1) / blocks_; };
    return uint32_t(first(group + 1) - first(group));
  }
  // What a wait for tile `t` of `owner` needs of its group.
  uint32_t tiles_until(uint32_t owner, uint64_t t) const {
    return blocks_ == 1 ? uint32_t(t / queues_) + 1 : tiles_in(owner, group_of(owner, t));
  }

  uint64_t out_element_bytes() const { return dtype_bytes(op_.out_dtype); }
  uint64_t sum_element_bytes() const { return op_.dtype == DType::kF64 ? 8 : 4; }
  uint64_t tile_columns() const {
    return (uint64_t(op_.n) + layout_.target().tile_n - 1) / layout_.target().tile_n;
  }
  uint32_t tile_count() const {
    return uint32_t((uint64_t(op_.m) + layout_.target().tile_m - 1) / layout_.target().tile_m *
                    tile_columns());
  }
  // Slots are as large as a full tile, rounded up to whole blocks of the tile kernels (64 x 64).
  uint64_t slot_elements() const {
    return align_up(std::min<uint64_t>(layout_.target().tile_m, uint64_t(op_.m)), 64) *
           align_up(std::min<uint64_t>(layout_.target().tile_n, uint64_t(op_.n)), 64);
  }
  Tile tile(uint32_t index) const {
    const uint64_t tile_m = layout_.target().tile_m, tile_n = layout_.target().tile_n;
    const auto columns = uint32_t(tile_columns());
    const TileOrder order{tile_count() / columns, columns, band_rows(layout_.target())};
    const TilePlace place = order.place(index);
    const uint64_t row0 = place.row * tile_m, col0 = place.col * tile_n;
    return {index, row0, std::min(tile_m, uint64_t(op_.m) - row0), col0,
            std::min(tile_n, uint64_t(op_.n) - col0)};
  }
  Slice tiles_of(uint32_t owner) const { return slice_of(tile_count(), layout_.ranks(), owner, 1); }
  void add_buffers() {
    const uint64_t es = layout_.element_bytes();
    const uint64_t a_rows = op_.transpose_a ? op_.k : op_.m;
    const uint64_t a_cols = op_.transpose_a ? op_.m : op_.k;
    const uint64_t a_bytes =
        a_rows == 0 || a_cols == 0 ? 0 : ((a_rows - 1) * op_.lda + a_cols) * es;
    a_ = layout_.add_operand(BufferKind::kInput, BufferAccess::kLocal, 0, a_bytes);
    const uint64_t c_bytes =
        ((uint64_t(op_.m) - 1) * op_.ldc + uint64_t(op_.n)) * out_element_bytes();
    c_ = layout_.add_operand(
        BufferKind::kOutput,
        direct_ ? layout_.operand_access(op_.symmetric_out) : BufferAccess::kLocal, 1, c_bytes);
    const uint64_t packed = layout_.target().packed_bytes;
    if (op_.pack_b) {
      const uint64_t b_rows = op_.transpose_b ? op_.n : op_.k;
      const uint64_t b_cols = op_.transpose_b ? op_.k : op_.n;
      raw_b_ = layout_.add_operand(
          BufferKind::kInput, BufferAccess::kLocal, 2,
          b_rows == 0 || b_cols == 0 ? 0 : ((b_rows - 1) * op_.ldb + b_cols) * es);
      b_ = layout_.add_workspace(BufferAccess::kLocal, packed);
    } else {
      b_ = layout_.add_operand(BufferKind::kInput, BufferAccess::kLocal, 2, packed);
    }
    if (layout_.ranks() == 1) return;
    const uint64_t partial_bytes = slot_elements() * sum_element_bytes();
    if (layout_.target().mapped) {
      partials_ = layout_.add_workspace(BufferAccess::kMapped, tile_count() * partial_bytes);
    } else {
      outgoing_ = layout_.add_workspace(BufferAccess::kLocal, tile_count() * partial_bytes);
      inboxes_ = layout_.add_inboxes(BufferAccess::kPutOnly, tiles_of(0).count * partial_bytes,
                                     layout_.ranks());
    }
    if (!direct_) {
      results_ = layout_.add_workspace(layout_.inbox_access(),
                                       tile_count() * slot_elements() * out_element_bytes());
    }
  }

  Region a_region(uint32_t rank, const Tile& tile) const {
    const uint64_t es = layout_.element_bytes(), pitch = uint64_t(op_.lda) * es;
    if (op_.k == 0) return {0, 0, pitch, 1, a_ + rank, 1, kRead};  // Nothing of A is read.
    if (op_.transpose_a) {
      return {tile.row0 * es, tile.rows * es, pitch, uint32_t(op_.k), a_ + rank, 1, kRead};
    }
    return {
        tile.row0 * pitch, uint64_t(op_.k) * es, pitch, uint32_t(tile.rows), a_ + rank, 1, kRead};
  }
  Region c_region(uint32_t rank, const Tile& tile, uint32_t buffer_count) const {
    const uint64_t es = out_element_bytes(), pitch = uint64_t(op_.ldc) * es;
    return {tile.row0 * pitch + tile.col0 * es,
            tile.cols * es,
            pitch,
            uint32_t(tile.rows),
            c_ + rank,
            buffer_count,
            kWrite};
  }
  Region result_region(uint32_t rank, const Tile& tile, RegionAccess access,
                       uint32_t buffer_count = 1) const {
    const uint64_t es = out_element_bytes();
    return {tile.index * slot_elements() * es,
            tile.cols * es,
            tile.cols * es,
            uint32_t(tile.rows),
            results_ + rank,
            buffer_count,
            access};
  }
  Region result_bytes(uint32_t rank, const Tile& tile, RegionAccess access) const {
    const uint64_t es = out_element_bytes();
    return flat(results_ + rank, tile.index * slot_elements() * es, tile.rows * tile.cols * es,
                access);
  }
  Region partial(uint32_t buffer, uint64_t slot, RegionAccess access, uint32_t count = 1) const {
    const uint64_t bytes = slot_elements() * sum_element_bytes();
    return flat(buffer, slot * bytes, bytes, access, count);
  }

  RankPlan part_of(uint32_t rank) const {
    Part part(layout_, rank, queues_, packed_lane() + 1 + (all_pack() ? queues_ : 0),
              [&](uint32_t producer, uint32_t lane) { return posts(rank, producer, lane); });
    part.enter(false);
    for (uint32_t queue = 0; queue < queues_; ++queue) {
      part.await(queue);
      if (op_.pack_b) pack(part, queue);  // Behind await: signals move only in agreed runs.
    }
    for (uint32_t i = 1; i < layout_.ranks(); ++i) {
      const uint32_t owner = (rank + i) % layout_.ranks();
      for (uint64_t t = 0; t < tiles_of(owner).count; ++t) compute_for_peer(part, owner, t);
    }
    for (uint64_t t = 0; t < tiles_of(rank).count; ++t) compute_own(part, t);
    if (!direct_) {
      for (uint32_t i = 0; i < layout_.ranks(); ++i)
        take_results(part, (rank + i) % layout_.ranks());
    }
    return part.finish();
  }

  uint32_t posts(uint32_t rank, uint32_t producer, uint32_t lane) const {
    if (lane == packed_lane()) return producer == rank && op_.pack_b ? 1 : 0;
    if (lane > packed_lane())
      return producer == rank && packed_by(lane - packed_lane() - 1).count != 0 ? 1 : 0;
    const uint32_t group = lane % groups();
    if (producer == rank) {
      // The own finished tiles: who copies them out may be another queue.
      return lane >= groups() && !direct_ ? tile_posts_ * tiles_in(rank, group) : 0;
    }
    return tile_posts_ * (lane < groups() ? tiles_in(rank, group) : tiles_in(producer, group));
  }

  bool all_pack() const { return op_.pack_b && layout_.target().packed_pitch != 0 && queues_ > 1; }
  // The columns that a queue packs. They are cut at whole lines of B's rows.
  Slice packed_by(uint32_t queue) const {
    const uint64_t n = uint64_t(op_.n);
    if (!all_pack()) return queue == 0 ? Slice{0, n} : Slice{};
    return slice_of(n, queues_, queue, line_elements(op_.dtype));
  }

  // Each queue's share, then a wait for all of B. Where all pack, the first queue waits for the
  // others and tells them: a table of waits for each queue would grow with their number squared.
  void pack(Part& part, uint32_t queue) const {
    pack_columns(part, queue);
    const Post packed = part.to(part.rank(), packed_lane());
    if (queue != 0 || !all_pack()) {
      const Wait all = part.from(part.rank(), packed_lane(), 1);
      return part.nop(queue, {&all, 1});
    }
    std::vector<Wait> waits;
    for (uint32_t each = 0; each < queues_; ++each)
      if (packed_by(each).count != 0) waits.push_back(part.from(part.rank(), share_lane(each), 1));
    part.nop(queue, waits, {&packed, 1});
  }

  void pack_columns(Part& part, uint32_t queue) const {
    const Slice columns = packed_by(queue);
    if (columns.count == 0) return;
    const uint32_t rank = part.rank();
    const uint64_t es = layout_.element_bytes(), pitch = layout_.target().packed_pitch;
    // Without k there is nothing to read, but the packed B is written all the same.
    const uint64_t rows = op_.k == 0 ? 1 : op_.transpose_b ? op_.n : op_.k;
    const uint64_t cols = op_.k == 0 ? 0 : op_.transpose_b ? op_.k : op_.n;
    int64_t params[kPackParamCount] = {};
    params[kPackDtype] = int64_t(op_.dtype);
    params[kPackTransposeB] = op_.transpose_b;
    params[kPackK] = op_.k;
    params[kPackN] = op_.n;
    params[kPackCol0] = int64_t(columns.begin);
    params[kPackCol1] = int64_t(columns.begin + columns.count);
    const Region packed_columns =
        pitch == 0 ? flat(b_ + rank, 0, layout_.target().packed_bytes, kWrite)
                   : flat(b_ + rank, columns.begin * pitch, columns.count * pitch, kWrite);
    const Post packed = part.to(rank, all_pack() ? share_lane(queue) : packed_lane());
    part.builder().add({.op = TaskOp::kPackB,
                        .queue = queue,
                        .regions = {Region{0, cols * es, uint64_t(op_.ldb) * es, uint32_t(rows),
                                           raw_b_ + rank, 1, kRead},
                                    packed_columns},
                        .params = params,
                        .posts = {&packed, 1}});
  }

  void gemm(Part& part, uint32_t queue, const Tile& tile, GemmEpilogue epilogue,
            std::initializer_list<Region> outputs, std::span<const Wait> waits,
            std::span<const Post> posts) const {
    const uint32_t rank = part.rank();
    int64_t params[kGemmParamCount] = {};
    params[kGemmDtype] = int64_t(op_.dtype);
    params[kGemmOutDtype] = int64_t(op_.out_dtype);
    params[kGemmTransposeA] = op_.transpose_a;
    params[kGemmM] = op_.m;
    params[kGemmN] = op_.n;
    params[kGemmK] = op_.k;
    params[kGemmRow0] = int64_t(tile.row0);
    params[kGemmRows] = int64_t(tile.rows);
    params[kGemmCol0] = int64_t(tile.col0);
    params[kGemmCols] = int64_t(tile.cols);
    params[kGemmEpilogue] = epilogue;
    params[kGemmSelf] = epilogue == kGemmReduce ? rank : 0;
    const uint64_t c_bytes = uint64_t(op_.m) * op_.n * out_element_bytes();
    params[kGemmHint] =
        direct_ && c_bytes >= layout_.target().stream_bytes ? kStoreNonTemporal : kStoreDefault;
    if (epilogue == kGemmPartial) {
      params[kGemmHint] = layout_.target().mapped ? kHandOver : kStoreDefault;
    }
    const Region a = a_region(rank, tile);
    const Region b = flat(b_ + rank, 0, layout_.target().packed_bytes, kRead);
    const auto add = [&](std::initializer_list<Region> regions) {
      part.builder().add({.op = TaskOp::kGemm,
                          .queue = queue,
                          .after_all = !posts.empty(),  // A signal counts its tiles in order.
                          .regions = regions,
                          .params = params,
                          .waits = waits,
                          .posts = posts});
    };
    const Region* out = outputs.begin();
    if (outputs.size() == 1) {
      add({a, b, out[0]});
    } else {
      add({a, b, out[0], out[1]});
    }
  }

  void compute_for_peer(Part& part, uint32_t owner, uint64_t t) const {
    const uint32_t rank = part.rank(), queue = uint32_t(t % queues_);
    const Tile piece = tile(uint32_t(tiles_of(owner).begin + t));
    const Post arrived = part.to(owner, partial_lane(group_of(owner, t)));
    if (layout_.target().mapped) {
      return gemm(part, queue, piece, kGemmPartial,
                  {partial(partials_ + rank, piece.index, kWrite)}, {}, {&arrived, 1});
    }
    gemm(part, queue, piece, kGemmPartial, {partial(outgoing_ + rank, piece.index, kWrite)}, {},
         {});
    put(part, queue, partial(outgoing_ + rank, piece.index, kRead),
        partial(inboxes_ + owner * layout_.ranks() + rank, t, kWrite), arrived, true);
  }

  void compute_own(Part& part, uint64_t t) const {
    const uint32_t rank = part.rank(), ranks = layout_.ranks(), queue = uint32_t(t % queues_);
    const Tile piece = tile(uint32_t(tiles_of(rank).begin + t));
    if (ranks == 1) return gemm(part, queue, piece, kGemmStore, {c_region(0, piece, 1)}, {}, {});
    const uint32_t group = group_of(rank, t);
    std::vector<Wait> waits;
    for (const uint32_t peer : part.peers()) {
      waits.push_back(part.from(peer, partial_lane(group), tile_posts_ * tiles_until(rank, t)));
    }
    const bool mapped = layout_.target().mapped;
    const Region partials = mapped ? partial(partials_, piece.index, kRead, ranks)
                                   : partial(inboxes_ + rank * ranks, t, kRead, ranks);
    std::vector<Post> done = part.to_all_peers(done_lane(group));
    if (direct_) {
      return gemm(part, queue, piece, kGemmReduce, {partials, c_region(0, piece, ranks)}, waits,
                  done);
    }
    const Post own = part.to(rank, done_lane(group), tile_posts_);
    if (mapped) {
      done.push_back(own);
      return gemm(part, queue, piece, kGemmReduce,
                  {partials, result_region(0, piece, kWrite, ranks)}, waits, done);
    }
    gemm(part, queue, piece, kGemmReduce, {partials, result_region(rank, piece, kWrite)}, waits,
         {&own, 1});
    bool first = true;
    for (const uint32_t peer : part.peers()) {
      put(part, queue, result_bytes(rank, piece, kRead), result_bytes(peer, piece, kWrite),
          part.to(peer, done_lane(group)), first);
      first = false;
    }
  }

  // The posts of the puts add up to tile_posts_.
  void put(Part& part, uint32_t queue, Region src, Region dst, Post post, bool after_all) const {
    const uint64_t bytes = src.row_bytes;
    uint32_t left = tile_posts_;
    for (uint64_t at = 0; at < bytes; at += put_bytes_) {
      const uint64_t size = std::min(put_bytes_, bytes - at);
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

  void take_results(Part& part, uint32_t owner) const {
    for (uint64_t t = 0; t < tiles_of(owner).count; ++t) {
      const uint32_t queue = uint32_t(t % queues_);
      const Tile piece = tile(uint32_t(tiles_of(owner).begin + t));
      const Wait done =
          part.from(owner, done_lane(group_of(owner, t)), tile_posts_ * tiles_until(owner, t));
      part.copy(queue, result_region(part.rank(), piece, kRead), c_region(part.rank(), piece, 1),
                false, {&done, 1});
    }
  }

  Layout layout_;
  static constexpr uint32_t kPutBlocks = 8;
  static constexpr uint64_t kLine = 64;
  uint32_t queues_ = 1, blocks_ = 1;
  uint32_t tile_posts_ = 1;  // What the signals of one tile add up to.
  uint64_t put_bytes_ = UINT64_MAX;
  bool direct_ = false;
  const GemmCall op_;
  uint32_t a_ = 0, b_ = 0, raw_b_ = 0, c_ = 0;
  uint32_t partials_ = 0, outgoing_ = 0, inboxes_ = 0, results_ = 0;
};

}  // namespace

Result<Plan> plan_allreduce_gemm(const OpDesc& op, const Target& target, Ranks ranks) {
  return AllreduceGemm(op, target).plan(ranks);
}

// All ranks' workers share the tiles of one C.
Product allreduce_gemm_product(const OpDesc& op, const Target& target) {
  const GemmCall call = gemm_call(op);
  return {call.dtype, call.m, call.n, call.k, target.world_size * target.workers};
}

}  // namespace sk::algo
