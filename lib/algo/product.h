// What plans of products have in common: how C is cut into tiles, B packed once by all queues or
// read as it lies, and the tasks that multiply.
#ifndef SK_LIB_ALGO_PRODUCT_H_
#define SK_LIB_ALGO_PRODUCT_H_

#include <optional>

#include "lib/algo/part.h"
#include "lib/algo/planner.h"
#include "lib/op/ops/product.h"
#include "lib/plan/tile_order.h"

namespace sk::algo {

struct Tile {
  uint32_t index;  // In the order in which tiles are begun.
  uint64_t row0, rows, col0, cols;
};

// Of a matrix [m, n], neither of which is 0.
class Tiles {
 public:
  Tiles(const Target& target, int64_t m, int64_t n);

  uint32_t count() const { return order_.rows * order_.cols; }
  uint32_t rows() const { return order_.rows; }  // Of tiles.
  Tile operator[](uint32_t index) const;

 private:
  uint64_t m_, n_, tile_m_, tile_n_;
  TileOrder order_;
};

// Whether tasks pack B, and whether each queue does some of it where there are several.
bool packs(const GemmCall& call, const Target& target);
bool packs_by_all(const GemmCall& call, const Target& target);

// Whose tiles so many workers take at one time.
Product product_of(const GemmCall& call, uint32_t parts);

// A call's operands. Lines are rows of A, or, where it is turned, columns.
class Factors {
 public:
  Factors(Layout& layout, const GemmCall& call) : layout_(layout), call_(call) {}

  // Each rank's buffers, which planners may want in this order; ids are those of rank 0.
  uint32_t add_a(BufferAccess access);
  uint32_t add_c(BufferAccess access, uint64_t rows);
  void add_b();

  uint64_t a_pitch() const { return uint64_t(call_.lda) * layout_.element_bytes(); }
  uint64_t out_element_bytes() const { return dtype_bytes(call_.out_dtype); }
  // Rows of A in `buffer`, whose lines lie `pitch` bytes apart there.
  Region a(uint32_t buffer, uint64_t pitch, uint64_t row0, uint64_t rows) const;
  Region c(uint32_t buffer, const Tile& tile, uint32_t buffer_count) const;
  // How tiles of a C of so many rows are stored.
  StoreHintParam store_hint(uint64_t rows) const;

  // Of B: lanes to the own rank from `first_lane` on, so many of them.
  void pack_by(uint32_t queues, uint32_t first_lane);
  bool is_packed_by_all() const;
  uint32_t lane_count() const { return 1 + (is_packed_by_all() ? queues_ : 0); }
  uint32_t posts(uint32_t lane) const;
  // A queue's share of it, then a wait for all of it. Nothing where it comes packed, or is read as
  // it lies.
  void pack(Part& part, uint32_t queue) const;

  struct Gemm {
    uint32_t queue = 0;
    Tile tile;      // Of C, which has
    uint64_t m;     // so many rows.
    Region a = {};  // The tile's rows.
    GemmEpilogue epilogue = kGemmStore;
    StoreHintParam hint = kStoreDefault;
    std::optional<DType> out_dtype = std::nullopt;  // Where it is not C's.
    std::initializer_list<Region> outputs = {};
    std::span<const Wait> waits = {};
    std::span<const Post> posts = {};
  };
  // Posts are seen behind all earlier tasks of the queue.
  void multiply(Part& part, const Gemm& gemm) const;

 private:
  bool packs() const { return algo::packs(call_, layout_.target()); }
  Region raw_b(uint32_t buffer) const;
  Slice packed_by(uint32_t queue) const;
  void pack_columns(Part& part, uint32_t queue) const;
  uint32_t packed_lane() const { return first_lane_; }
  uint32_t share_lane(uint32_t queue) const { return first_lane_ + 1 + queue; }

  Layout& layout_;
  const GemmCall call_;
  uint32_t queues_ = 1, first_lane_ = 0;
  uint32_t b_ = 0, raw_b_ = 0;
};

// The most bytes of one put: whole lines where it carries a line.
uint64_t put_bytes_of(const Target& target);
// One row by as many puts as it takes. Their posts add up to `post`: the last makes up for puts
// that a larger row takes.
void put_row(Part& part, uint32_t queue, const Region& src, const Region& dst, Post post,
             bool after_all, uint64_t put_bytes);

}  // namespace sk::algo

#endif  // SK_LIB_ALGO_PRODUCT_H_
