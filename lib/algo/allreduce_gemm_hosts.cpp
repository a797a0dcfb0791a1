// GEMM, then all-reduce from host to host, overlapped: every rank keeps all tiles of its product as
// sums, and pieces of them are joined as in sum_along_hosts.cpp. The order of tiles is that in
// which their pieces are summed, so a piece is on its way while later tiles are multiplied.
//
// Queues multiply tiles in turn. The first one also passes on, sums and takes results: in a round
// go the pieces of the round before, which the others have made meanwhile. It has fewer tiles.
#include <algorithm>
#include <optional>

#include "lib/algo/neighbours.h"
#include "lib/algo/product.h"
#include "lib/algo/sum_along_hosts.h"
#include "lib/algo/two_level.h"

namespace sk::algo {
namespace {

// Each piece costs some hand-overs between ranks that multiply meanwhile: more than smaller ones
// hide.
constexpr uint64_t kPieceBytes = 256 << 10;
// They are larger where all ranks together would have more of them: each makes some four tasks, and
// the first call of a size waits until those are made and judged.
constexpr uint64_t kPiecesMax = 16 << 10;
// What waits at a rank takes no more than so often the bytes of C's sums, or this.
constexpr uint64_t kWaitingOfAll = 3, kWaitingBytesMin = 8 << 20;
// Where a strand ends near the end of a tile it ends with it, so that no piece is but a few rows:
// within so many parts of a strand. A tree of hosts gets that much more or less at both ends, so
// that a host sends at most a tenth more than its share.
constexpr uint64_t kNearInStrand = 10;
// Of so many tiles of a worker the first are summed while it multiplies others. More of them, or
// smaller ones than pieces, would be copied and handed over for nothing.
constexpr uint64_t kRoundsMax = 8;
// All that the first queue does with the sums of a tile takes as long as so many steps of k: some
// 4 ns for each of them, of which a core multiplies an f32 in 0.03 to 0.04.
constexpr uint64_t kStepsOfSums = 128;

class AllreduceGemmAlongHosts {
 public:
  AllreduceGemmAlongHosts(const OpDesc& desc, const Target& target)
      : layout_(desc, target),
        hosts_(target),
        op_(gemm_call(desc)),
        sum_dtype_(accumulator(op_.dtype)),
        tiles_(target, op_.m, op_.n),
        factors_(layout_, op_) {
    cut();
    order();
    queues_ = std::clamp<uint32_t>(target.workers, 1, tiles_.count());
    const uint32_t per_queue = 1 + (packs_by_all(op_, target) ? 1 : 0);
    queues_ = std::clamp<uint32_t>((layout_.lanes_max() - 1) / per_queue, 1, queues_);
    deal();
    factors_.pack_by(queues_, /*first_lane=*/queues_ - 1);
    a_ = factors_.add_a(BufferAccess::kLocal);
    c_ = factors_.add_c(BufferAccess::kLocal, uint64_t(op_.m));
    factors_.add_b();
    products_ = layout_.add_workspace(BufferAccess::kLocal, elements_ * sum_bytes());
  }

  Plan plan(Ranks ranks) {
    const HostSums sums = {
        .units = *units_,
        .dtype = sum_dtype_,
        .out_dtype = op_.out_dtype,
        .redop = RedOp::kSum,
        .in =
            [this](uint32_t rank, const SumUnits::Unit& unit) {
              return flat(products_ + rank, unit.in * sum_bytes(), unit.count * sum_bytes(), kRead);
            },
        .out = [this](uint32_t rank, const SumUnits::Unit& unit) { return result(rank, unit); },
        .begin = [this](uint32_t rank,
                        const std::vector<Flow>& flows) { return begin(rank, flows); },
        .maker = [this](const Part&) { return std::make_unique<Maker>(*this); }};
    return sum_along_hosts(layout_, hosts_, sums, ranks);
  }

 private:
  // Rows of a tile, or, where a put cannot carry one, elements of a row.
  struct Piece {
    uint32_t tile;
    uint64_t row0, rows, col0, cols;  // In C.
  };

  // Who multiplies a tile, and which one of its tiles that is: 1 is the first.
  struct Turn {
    uint32_t queue, number;
  };

  uint64_t sum_bytes() const { return dtype_bytes(sum_dtype_); }

  uint64_t all() const { return uint64_t(op_.m) * uint64_t(op_.n); }

  uint64_t strands() const {
    return hosts_.count() * SumUnits::columns_of(hosts_, all(), dtype_bytes(op_.out_dtype));
  }

  uint64_t piece_elements() const {
    const Target& target = layout_.target();
    const uint64_t c_bytes = all() * sum_bytes(), columns = strands() / hosts_.count();
    // A rank gets what the others of its host have, and results of each column and each host.
    const uint64_t inboxes = hosts_.largest() + 1 + columns + hosts_.count();
    const uint64_t room =
        std::max(kWaitingOfAll * c_bytes, kWaitingBytesMin) / (inboxes * slots_along_hosts(target));
    const uint64_t wanted = std::max(kPieceBytes, c_bytes * hosts_.ranks() / kPiecesMax);
    const uint64_t bytes = std::max(std::min(wanted, room), target.chunk_bytes);
    return std::max<uint64_t>(1, std::min(bytes, target.put_bytes_max) / sum_bytes());
  }

  // Rows of a tile with which pieces begin, and their end: where one strand ends and the next
  // begins, so that hosts send alike. `before` is how many elements lie in tiles before it.
  std::vector<uint64_t> parts_of(const Tile& tile, uint64_t before) const {
    const uint64_t count = strands(), near = all() / count / kNearInStrand;
    const uint64_t elements = tile.rows * tile.cols;
    std::vector<uint64_t> rows = {0};
    for (uint64_t strand = before * count / all() + 1; strand < count; ++strand) {
      const uint64_t end = strand * all() / count;
      if (end >= before + elements) break;
      const uint64_t row = (end - std::min(end, before) + tile.cols / 2) / tile.cols;
      const uint64_t at = std::min(row, tile.rows) * tile.cols;
      if (at > near && elements - at > near && row > rows.back()) rows.push_back(row);
    }
    rows.push_back(tile.rows);
    return rows;
  }

  // Evenly, for the others wait for the largest.
  void cut() {
    const uint64_t most = piece_elements();
    std::vector<SumUnits::Piece> in_order;
    uint64_t before = 0;
    for (uint32_t index = 0; index < tiles_.count(); ++index) {
      const Tile tile = tiles_[index];
      const uint64_t across = (tile.cols - 1) / most + 1, cols = (tile.cols - 1) / across + 1;
      const std::vector<uint64_t> ends = parts_of(tile, before);
      firsts_.push_back(elements_);
      for (size_t part = 0; part + 1 < ends.size(); ++part) {
        const uint64_t begin = ends[part], in_part = ends[part + 1] - begin;
        const uint64_t pieces = (in_part - 1) / (most / cols) + 1;
        for (uint64_t piece = 0; piece < pieces; ++piece) {
          const uint64_t row = begin + piece * in_part / pieces;
          const uint64_t rows = begin + (piece + 1) * in_part / pieces - row;
          for (uint64_t col = 0; col < tile.cols; col += cols) {
            const uint64_t width = std::min(cols, tile.cols - col);
            in_order.push_back({elements_ + row * tile.cols + col, pieces_.size(), rows * width});
            pieces_.push_back({index, tile.row0 + row, rows, tile.col0 + col, width});
          }
        }
      }
      before += tile.rows * tile.cols;
      elements_ += align_up(tile.rows * tile.cols, line_elements(sum_dtype_));
    }
    units_.emplace(hosts_, in_order, dtype_bytes(op_.out_dtype));
  }

  const Piece& piece_of(const SumUnits::Unit& unit) const { return pieces_[unit.out]; }

  // By the time of their first units.
  void order() {
    times_.assign(tiles_.count(), UINT64_MAX);
    for (uint32_t column = 0; column < units_->columns(); ++column) {
      for (const SumUnits::Unit& unit : units_->of(column)) {
        uint64_t& time = times_[piece_of(unit).tile];
        time = std::min(time, unit.time);
      }
    }
    for (uint32_t tile = 0; tile < tiles_.count(); ++tile) order_.push_back(tile);
    std::ranges::stable_sort(order_, {}, [this](uint32_t tile) { return times_[tile]; });
    places_.resize(tiles_.count());
    for (uint32_t place = 0; place < tiles_.count(); ++place) places_[order_[place]] = place;
  }

  // So many that the first queue ends with the others.
  uint32_t tiles_of_first() const {
    const uint64_t count = tiles_.count(), k = uint64_t(op_.k), others = queues_ - 1;
    if (others == 0) return uint32_t(count);
    uint64_t best = UINT64_MAX;
    uint32_t tiles = 0;
    for (uint64_t its = 0; its <= (count - 1) / queues_ + 1; ++its) {
      const uint64_t theirs = (count - its + others - 1) / others;
      const uint64_t steps = std::max(its * k + count * kStepsOfSums, theirs * k);
      if (steps < best) tiles = uint32_t(its);
      best = std::min(best, steps);
    }
    return tiles;
  }

  void deal() {
    const uint32_t count = tiles_.count(), first = tiles_of_first(), others = queues_ - 1;
    const uint32_t rounds = others == 0 ? count : std::max(first, (count - first - 1) / others + 1);
    tiles_by_.assign(queues_, 0);
    const auto give = [&](uint32_t queue) { turns_.push_back({queue, ++tiles_by_[queue]}); };
    for (uint64_t round = 0; round < rounds; ++round) {
      if (round * first % rounds < first) give(0);
      for (uint32_t queue = 1; queue < queues_ && turns_.size() < count; ++queue) give(queue);
      rounds_.push_back(uint32_t(turns_.size()));
    }
  }

  Region result(uint32_t rank, const SumUnits::Unit& unit) const {
    const Piece& piece = piece_of(unit);
    const Region rows =
        factors_.c(c_ + rank, {piece.tile, piece.row0, piece.rows, piece.col0, piece.cols}, 1);
    if (rows.rows > 1 && rows.pitch != rows.row_bytes) return rows;
    return flat(rows.buffer, rows.offset, rows.rows * rows.row_bytes, kWrite);
  }

  // Lanes to the own rank: tiles that a queue has made, but for the first one's; those of B.
  uint32_t made_lane(uint32_t queue) const { return queue - 1; }

  Part begin(uint32_t rank, const std::vector<Flow>& flows) const {
    const uint32_t made = queues_ - 1, own = made + factors_.lane_count();
    Part part(layout_, rank, queues_, std::max(lanes_of(flows), own),
              [&](uint32_t producer, uint32_t lane) {
                if (producer != rank) return posts_of(flows, rank, producer, lane);
                if (lane < made) return tiles_by_[lane + 1];
                return lane < own ? factors_.posts(lane) : 0;
              });
    part.enter(false);
    for (uint32_t queue = 0; queue < queues_; ++queue) {
      part.await(queue);
      factors_.pack(part, queue);
    }
    return part;
  }

  void multiply(Part& part, uint32_t place) const {
    const uint32_t rank = part.rank(), queue = turns_[place].queue;
    const Tile tile = tiles_[order_[place]];
    const uint64_t row = tile.cols * sum_bytes();
    const Post made = part.to(rank, queue == 0 ? 0 : made_lane(queue));
    factors_.multiply(part, {.queue = queue,
                             .tile = tile,
                             .m = uint64_t(op_.m),
                             .a = factors_.a(a_ + rank, factors_.a_pitch(), tile.row0, tile.rows),
                             .out_dtype = sum_dtype_,
                             .outputs = {{firsts_[tile.index] * sum_bytes(), row, row,
                                          uint32_t(tile.rows), products_ + rank, 1, kWrite}},
                             .posts = queue == 0 ? std::span<const Post>() : std::span(&made, 1)});
  }

  class Maker : public TermMaker {
   public:
    explicit Maker(const AllreduceGemmAlongHosts& plan) : plan_(plan), heard_(plan.queues_, 0) {}

    void make_until(Part& part, uint64_t time) override {
      const std::vector<uint32_t>& rounds = plan_.rounds_;
      const uint32_t count = plan_.tiles_.count();
      while (wanted_ < count && plan_.times_[plan_.order_[wanted_]] <= time) ++wanted_;
      while (rounds[round_] < wanted_) ++round_;
      const size_t ahead = round_ + (plan_.queues_ > 1 ? 1 : 0);
      for (const uint32_t end = rounds[std::min(ahead, rounds.size() - 1)]; made_ < end; ++made_)
        plan_.multiply(part, made_);
    }

    void await(Part& part, const SumUnits::Unit& unit) override {
      const auto [queue, number] = plan_.turns_[plan_.places_[plan_.piece_of(unit).tile]];
      if (queue == 0) return;
      // Columns want a queue's tiles out of its order. A wait for each of them: who is told of a
      // post alone, and not of all before it, is judged by the exact way, which takes far longer.
      while (heard_[queue] < number) {
        const Wait made = part.from(part.rank(), plan_.made_lane(queue), ++heard_[queue]);
        part.nop(0, {&made, 1});
      }
    }

   private:
    const AllreduceGemmAlongHosts& plan_;
    uint32_t wanted_ = 0, made_ = 0;  // Tiles, in their order.
    size_t round_ = 0;                // That has what is wanted.
    std::vector<uint32_t> heard_;     // Tiles of each queue that the first one knows of.
  };

  Layout layout_;
  const Hosts hosts_;
  const GemmCall op_;
  const DType sum_dtype_;
  const Tiles tiles_;
  Factors factors_;
  std::vector<Piece> pieces_;
  std::vector<uint64_t> firsts_;  // Of each tile, in `products_`: elements.
  uint64_t elements_ = 0;
  std::optional<SumUnits> units_;
  std::vector<uint64_t> times_;           // Of tiles.
  std::vector<uint32_t> order_, places_;  // Of tiles; their places in it.
  uint32_t queues_ = 1;
  std::vector<Turn> turns_;             // Of tiles, in that order.
  std::vector<uint32_t> rounds_ = {0};  // Where each begins in it, and their end.
  std::vector<uint32_t> tiles_by_;      // Each queue.
  uint32_t a_ = 0, c_ = 0, products_ = 0;
};

}  // namespace

Plan allreduce_gemm_along_hosts(const OpDesc& op, const Target& target, Ranks ranks) {
  return AllreduceGemmAlongHosts(op, target).plan(ranks);
}

uint32_t tiles_along_hosts(const GemmCall& call, const Target& target) {
  const uint64_t bytes = uint64_t(call.m) * uint64_t(call.n) * dtype_bytes(accumulator(call.dtype));
  return uint32_t(
      std::clamp<uint64_t>(bytes / kPieceBytes, target.workers, kRoundsMax * target.workers));
}

}  // namespace sk::algo
