#include "lib/effect/stream.h"

#include <algorithm>

namespace sk::effect {

void append(Stream& stream, const Piece& piece) {
  if (piece.rows == 0 || piece.bytes == 0) return;
  if (piece.term.is_nothing()) {  // Has no places: one run of bytes.
    const uint64_t bytes = piece.rows * piece.bytes;
    if (!stream.empty() && stream.back().term.is_nothing()) {
      stream.back().bytes += bytes;
    } else {
      stream.push_back({.bytes = bytes});
    }
    return;
  }
  if (!stream.empty()) {
    Piece& last = stream.back();
    if (last.term == piece.term) {
      if (last.rows == 1 && piece.rows == 1 && last.row == piece.row &&
          last.column + last.bytes == piece.column) {
        last.bytes += piece.bytes;
        return;
      }
      if (last.bytes == piece.bytes && last.column == piece.column &&
          last.row + last.rows == piece.row) {
        last.rows += piece.rows;
        return;
      }
    }
  }
  stream.push_back(piece);
}

void append_all(Stream& stream, const Stream& more) {
  for (const Piece& piece : more) append(stream, piece);
}

uint64_t bytes_of(const Stream& stream) {
  uint64_t bytes = 0;
  for (const Piece& piece : stream) bytes += piece.rows * piece.bytes;
  return bytes;
}

Stream slice(const Stream& stream, uint64_t first, uint64_t bytes) {
  Stream out;
  for (const Piece& piece : stream) {
    const uint64_t size = piece.rows * piece.bytes;
    if (first >= size) {
      first -= size;
      continue;
    }
    uint64_t left = std::min(bytes, size - first);
    bytes -= left;
    uint64_t row = first / piece.bytes, column = first % piece.bytes;
    first = 0;
    while (left > 0) {
      Piece part = piece;
      part.row += row;
      part.column += column;
      if (column == 0 && left >= piece.bytes) {
        part.rows = left / piece.bytes;
      } else {
        part.rows = 1;
        part.bytes = std::min(left, piece.bytes - column);
      }
      append(out, part);
      left -= part.rows * part.bytes;
      row += part.rows;
      column = 0;
    }
    if (bytes == 0) break;
  }
  return out;
}

Walk::Walk(std::vector<const Stream*> streams, Work& work)
    : streams_(std::move(streams)),
      places_(streams_.size()),
      current_(streams_.size()),
      work_(work) {}

bool Walk::next() {
  work_.spend(4 + 4 * streams_.size());
  if (work_.exhausted() || streams_.empty()) return false;
  bytes_ = UINT64_MAX;
  rows_ = UINT64_MAX;
  bool whole_rows = true;
  for (size_t i = 0; i < streams_.size(); ++i) {
    const Place& place = places_[i];
    if (place.piece == streams_[i]->size()) return false;
    const Piece& piece = (*streams_[i])[place.piece];
    const uint64_t left = piece.bytes - place.byte;
    if (i > 0 && left != bytes_) whole_rows = false;
    if (place.byte != 0) whole_rows = false;
    bytes_ = std::min(bytes_, left);
    rows_ = std::min(rows_, piece.rows - place.row);
  }
  if (!whole_rows) rows_ = 1;
  for (size_t i = 0; i < streams_.size(); ++i) {
    Place& place = places_[i];
    const Piece& piece = (*streams_[i])[place.piece];
    current_[i] = piece;
    current_[i].rows = rows_;
    current_[i].bytes = bytes_;
    current_[i].row += place.row;
    current_[i].column += place.byte;
    place.byte += bytes_;
    if (place.byte == piece.bytes) {
      place.byte = 0;
      place.row += rows_;
      if (place.row == piece.rows) {
        place.row = 0;
        ++place.piece;
      }
    }
  }
  return true;
}

bool Walk::alike(size_t i, size_t j) const {
  const Piece &x = current_[i], &y = current_[j];
  if (x.term.is_nothing() || y.term.is_nothing()) return x.term.array == y.term.array;
  return x.term == y.term && x.row == y.row && x.column == y.column;
}

bool same(const Stream& a, const Stream& b, Work& work) {
  if (a.size() == 1 && b.size() == 1 && a[0] == b[0]) return true;
  if (bytes_of(a) != bytes_of(b)) return false;
  Walk walk({&a, &b}, work);
  while (walk.next()) {
    if (!walk.alike(0, 1)) return false;
  }
  return !work.exhausted();
}

}  // namespace sk::effect
