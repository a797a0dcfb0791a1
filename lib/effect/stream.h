// Bytes as rule e sees them: not what they are, but what they stand for.
//
// A stream describes consecutive bytes as pieces; a piece is rows of an array's elements that all
// are one term.
#ifndef SK_LIB_EFFECT_STREAM_H_
#define SK_LIB_EFFECT_STREAM_H_

#include <vector>

#include "lib/effect/term.h"
#include "lib/effect/work.h"

namespace sk::effect {

// Element (row, column) of the array first, `bytes` on, then the next row. Of what is turned rows
// are columns of the array. Of a block that is laid out for kernels: row 0, its byte `column`
// first.
struct Piece {
  Term term = {};
  uint64_t rows = 1;
  uint64_t bytes = 0;  // Of a row.
  uint64_t row = 0;
  uint64_t column = 0;  // In bytes of the term's dtype.

  bool operator==(const Piece&) const = default;
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

void append(Stream& stream, const Piece& piece);
void append_all(Stream& stream, const Stream& more);
uint64_t bytes_of(const Stream& stream);
Stream slice(const Stream& stream, uint64_t first, uint64_t bytes);

// Walks several streams of one length together, in blocks that are one piece in each of them.
class Walk {
 public:
  Walk(std::vector<const Stream*> streams, Work& work);
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
  Work& work_;
  uint64_t rows_ = 0, bytes_ = 0;
};

bool same(const Stream& a, const Stream& b, Work& work);

}  // namespace sk::effect

#endif  // SK_LIB_EFFECT_STREAM_H_
