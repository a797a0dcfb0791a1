// Rule e's view of bytes: not what they are, but which elements they stand for.
//
// A stream describes consecutive bytes as pieces; a piece is rows of a matrix of elements that all
// hold the same thing: the sum over such and such ranks of the element at that place.
#ifndef SK_LIB_PLAN_CHECK_STREAM_H_
#define SK_LIB_PLAN_CHECK_STREAM_H_

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "lib/op/dtype.h"
#include "lib/plan/check/refuse.h"

namespace sk::check {

enum Space : uint64_t {
  kUndefined = 0,  // Nothing that the op speaks of: old output, unused workspace, gaps of matrices.
  kElements = 1,   // Of the op's vectors.
  kMatrixA = 2,
  kMatrixB = 3,
  kProduct = 4,  // C.
  kBlobs = 16,   // Packed B and partial tiles: numbered from here on, see Blobs.
};

struct Tag {
  uint64_t space = kUndefined;
  uint64_t ranks = 0;  // Whose contributions: rank_hash() summed, by position where order matters.
  uint32_t count = 1;  // How many.
  uint8_t redop = 0;   // What joined them; 0 while there is one.
  DType dtype = DType::kF32;
  bool rounded = false;  // No longer what an accumulator holds.

  bool operator==(const Tag&) const = default;
};

// Element (row, column) of the tag's space first, `columns` bytes on, then the next row.
struct Piece {
  Tag tag = {};
  uint64_t rows = 1;
  uint64_t bytes = 0;  // Of a row.
  uint64_t row = 0;
  uint64_t column = 0;  // In bytes of the tag's dtype.
};

// Pieces in order. Nearly all streams are one piece, which needs no memory of its own.
class Stream {
 public:
  Stream() = default;
  Stream(const Piece& piece) : one_(piece), size_(1) {}  // NOLINT(google-explicit-constructor)

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const Piece* begin() const { return size_ > 1 ? many_.data() : &one_; }
  const Piece* end() const { return begin() + size_; }
  const Piece& operator[](size_t i) const { return begin()[i]; }
  Piece& back() { return size_ > 1 ? many_.back() : one_; }
  void push_back(const Piece& piece) {
    if (size_ == 0) {
      one_ = piece;
    } else {
      if (size_ == 1) many_.assign(1, one_);
      many_.push_back(piece);
    }
    ++size_;
  }

 private:
  Piece one_;
  size_t size_ = 0;
  std::vector<Piece> many_;  // All of them, where there are several.
};

// What only the GEMM kernels can read: known as a whole, by what it holds.
struct Blob {
  bool packed = false;  // Columns of B; else a partial tile.
  uint64_t row0 = 0, rows = 0, col0 = 0, cols = 0;
  uint64_t bytes = 0;
  auto operator<=>(const Blob&) const = default;
};

class Blobs {
 public:
  uint64_t space_of(const Blob& blob);
  const Blob* of(uint64_t space) const {
    return space < kBlobs ? nullptr : &blobs_[space - kBlobs];
  }

 private:
  std::map<Blob, uint64_t> known_;
  std::vector<Blob> blobs_;
};

uint64_t rank_hash(uint32_t rank);
// The factor of the contribution at this position of an ordered sum.
uint64_t position_factor(uint32_t position);

void append(Stream& stream, const Piece& piece);
void append_all(Stream& stream, const Stream& more);
uint64_t bytes_of(const Stream& stream);
Stream slice(const Stream& stream, uint64_t first, uint64_t bytes);

// Walks several streams of one length together, in blocks that are one piece in each of them.
class Walk {
 public:
  Walk(std::vector<const Stream*> streams, Budget& budget);
  bool next();  // False behind the last block.
  uint64_t rows() const { return rows_; }
  uint64_t bytes() const { return bytes_; }  // Of each row.
  // The block as stream `i` describes it.
  const Piece& piece(size_t i) const { return current_[i]; }
  // Whether streams `i` and `j` say the same of the block.
  bool alike(size_t i, size_t j) const;
  size_t size() const { return streams_.size(); }

 private:
  struct Place {
    size_t piece = 0;
    uint64_t row = 0, byte = 0;
  };
  std::vector<const Stream*> streams_;
  std::vector<Place> places_;
  std::vector<Piece> current_;
  Budget& budget_;
  uint64_t rows_ = 0, bytes_ = 0;
};

bool same(const Stream& a, const Stream& b, Budget& budget);
// "f32 sum over 3 ranks of element 12", for sentences.
std::string describe(const Piece& piece);

}  // namespace sk::check

#endif  // SK_LIB_PLAN_CHECK_STREAM_H_
