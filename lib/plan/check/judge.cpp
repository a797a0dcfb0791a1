#include "lib/plan/check/judge.h"

#include "lib/op/schema.h"
#include "lib/plan/task_info.h"

namespace sk::check {

using effect::append;
using effect::append_all;
using effect::bytes_of;
using effect::kPieceSteps;
using effect::Piece;
using effect::same;
using effect::slice;
using effect::Stream;
using effect::Walk;

Judge::Judge(const Plan& plan, const Cast& cast, const Footprint& footprint,
             const effect::Meaning& meaning, Budget& budget)
    : plan_(plan),
      cast_(cast),
      footprint_(footprint),
      budget_(budget),
      meaning_(meaning),
      callers_(plan, footprint.operands(), meaning, blocks_, budget_),
      cells_(footprint.cell_count()),
      written_(footprint.cell_count(), false) {
  for (const Memory& memory : footprint.memories()) fill(memory);
}

void Judge::fill(const Memory& memory) {
  const bool empty = memory.kind == BufferKind::kWorkspace || memory.kind == BufferKind::kOutput;
  Callers::Given given;
  if (!empty)
    given = callers_.given(footprint_.operands().home(memory.operand), cast_.rank(memory.owner));
  for (uint32_t row = 0; row < memory.row_count(); ++row) {
    for (uint32_t column = 0; column < memory.column_count(); ++column) {
      Stream& content = cells_[memory.cell(row, column)];
      const uint64_t first = memory.columns[column], bytes = memory.columns[column + 1] - first;
      if (empty) {
        append(content, {.rows = memory.rows[row + 1] - memory.rows[row], .bytes = bytes});
        continue;
      }
      for (uint64_t y = memory.rows[row]; y < memory.rows[row + 1] && !budget_.exhausted(); ++y) {
        const size_t before = content.size();
        given.bytes(y * memory.pitch + first, bytes, &content);
        budget_.spend(16 + kPieceSteps * (content.size() - before));
      }
    }
  }
}

Stream Judge::read(const Memory& memory, std::span<const Rect> rects) const {
  Stream out;
  for (const Rect& rect : rects) {
    for (uint32_t row = rect.row0; row < rect.row1; ++row) {
      if (rect.column1 - rect.column0 == 1) {
        const Stream& content = cells_[memory.cell(row, rect.column0)];
        budget_.spend(1 + content.size());
        append_all(out, content);
        continue;
      }
      const uint64_t lines = memory.rows[row + 1] - memory.rows[row];
      for (uint64_t line = 0; line < lines && !budget_.exhausted(); ++line) {
        for (uint32_t column = rect.column0; column < rect.column1; ++column) {
          const uint64_t bytes = memory.columns[column + 1] - memory.columns[column];
          const Stream& content = cells_[memory.cell(row, column)];
          budget_.spend(4 + content.size());
          append_all(out, lines == 1 ? content : slice(content, line * bytes, bytes));
        }
      }
    }
  }
  return out;
}

Status Judge::put_cell(uint32_t cell, Stream content, bool output, const Where& where) {
  if (output && written_[cell])
    return refuse('e', "{} writes bytes of an output a second time", where);
  written_[cell] = true;
  if (content.size() > 1) budget_.spend(kPieceSteps * content.size());
  cells_[cell] = std::move(content);
  return Status();
}

Status Judge::write(const Memory& memory, std::span<const Rect> rects, const Stream& stream,
                    const Where& where) {
  const bool output = memory.kind != BufferKind::kWorkspace;
  uint64_t at = 0;
  const auto take = [&](uint64_t bytes) {
    budget_.spend(4 + stream.size());
    const bool whole = at == 0 && bytes == bytes_of(stream);
    at += bytes;
    return whole ? stream : slice(stream, at - bytes, bytes);
  };
  for (const Rect& rect : rects) {
    for (uint32_t row = rect.row0; row < rect.row1; ++row) {
      const uint64_t lines = memory.rows[row + 1] - memory.rows[row];
      if (lines == 1 || rect.column1 - rect.column0 == 1) {
        for (uint32_t column = rect.column0; column < rect.column1; ++column) {
          const uint64_t bytes = lines * (memory.columns[column + 1] - memory.columns[column]);
          SK_RETURN_IF_ERROR(put_cell(memory.cell(row, column), take(bytes), output, where));
        }
        continue;
      }
      std::vector<Stream> contents(rect.column1 - rect.column0);
      for (uint64_t line = 0; line < lines && !budget_.exhausted(); ++line) {
        for (uint32_t column = rect.column0; column < rect.column1; ++column) {
          append_all(contents[column - rect.column0],
                     take(memory.columns[column + 1] - memory.columns[column]));
        }
      }
      for (uint32_t column = rect.column0; column < rect.column1; ++column) {
        SK_RETURN_IF_ERROR(put_cell(memory.cell(row, column),
                                    std::move(contents[column - rect.column0]), output, where));
      }
    }
  }
  return Status();
}

void Judge::task(const Where& where) {
  if (status_.ok() && where.task().region_count > 0) status_ = run_task(where);
}

void Judge::end(uint32_t rank) {
  if (status_.ok()) status_ = check_output(rank);
}

void Judge::leave(const Where& where, const Stream& content) {
  const uint32_t index = where.part.queues[where.queue].first_task + where.index;
  for (const Access& access : footprint_.accesses(where.part.rank, index)) {
    if (!access.write || !status_.ok()) continue;
    status_ = write(footprint_.memories()[access.memory], footprint_.rects(access), content, where);
  }
}

Stream Judge::left_by(const Where& where) const {
  const uint32_t index = where.part.queues[where.queue].first_task + where.index;
  for (const Access& access : footprint_.accesses(where.part.rank, index)) {
    if (access.write) return read(footprint_.memories()[access.memory], footprint_.rects(access));
  }
  return {};
}

Status Judge::run_task(const Where& where) {
  const RankPlan& part = where.part;
  const effect::Tile* tile = effect_of(where.task().op);
  if (tile == nullptr) {
    return refuse('e', "{}: nothing is known of what it leaves in its regions", where);
  }
  if (!tile->flaw().empty()) {
    return refuse('e', "{}: what its tile's record says it leaves in its regions: {}", where,
                  tile->flaw());
  }
  const uint32_t index = part.queues[where.queue].first_task + where.index;
  const std::span<const Access> accesses = footprint_.accesses(part.rank, index);
  inputs_.clear();
  for (const Access& access : accesses) {
    if (access.write) continue;
    inputs_.push_back({access.region, access.entry,
                       read(footprint_.memories()[access.memory], footprint_.rects(access))});
  }
  const std::span<const Region> regions = part.regions_of(where.task());
  const Result<effect::Outputs> result = effect::run({.meaning = meaning_,
                                                      .blocks = blocks_,
                                                      .work = budget_,
                                                      .tile = *tile,
                                                      .parameters = part.params_of(where.task()),
                                                      .regions = regions,
                                                      .rank = cast_.rank(part.rank),
                                                      .inputs = inputs_,
                                                      .strips = plan_.target.packed_pitch != 0});
  if (!result.ok()) return refuse('e', "{}: {}", where, result.status().message());
  for (const Access& access : accesses) {
    if (!access.write) continue;
    const Region& region = regions[access.region];
    const Stream& left = result.value().of(access.region);
    const uint64_t bytes = bytes_of(left);
    if (bytes != region.rows * region.row_bytes) {
      return refuse('e', "{} makes {} bytes for a region of {}", where, bytes,
                    region.rows * region.row_bytes);
    }
    SK_RETURN_IF_ERROR(
        write(footprint_.memories()[access.memory], footprint_.rects(access), left, where));
    if (budget_.exhausted()) return budget_.status();
  }
  return Status();
}

// Whether every cell of the operand holds its part of the one piece that is wanted.
bool Judge::is_as_wanted(const Memory& memory, const Stream& wanted) const {
  const std::span<const Rect> rects = footprint_.operand_rects(memory);
  if (wanted.size() != 1 || wanted[0].term.is_nothing() || rects.size() != 1) return false;
  const Rect& all = rects[0];
  const uint64_t row0 = memory.rows[all.row0], column0 = memory.columns[all.column0];
  if (memory.rows[all.row1] - row0 != wanted[0].rows ||
      memory.columns[all.column1] - column0 != wanted[0].bytes) {
    return false;
  }
  for (uint32_t row = all.row0; row < all.row1; ++row) {
    for (uint32_t column = all.column0; column < all.column1; ++column) {
      const Stream& content = cells_[memory.cell(row, column)];
      const Piece& is = content[0];
      if (content.size() != 1 || is.term != wanted[0].term ||
          is.rows != memory.rows[row + 1] - memory.rows[row] ||
          is.bytes != memory.columns[column + 1] - memory.columns[column] ||
          is.row != wanted[0].row + memory.rows[row] - row0 ||
          is.column != wanted[0].column + memory.columns[column] - column0) {
        return false;
      }
    }
  }
  return true;
}

Status Judge::check_piecewise(const Memory& memory, const Stream& wanted, uint32_t rank) const {
  if (is_as_wanted(memory, wanted)) return Status();
  const Stream found = read(memory, footprint_.operand_rects(memory));
  if (bytes_of(found) != bytes_of(wanted)) {
    return refuse('e', "rank {} ends with {} bytes of output, not {}", rank, bytes_of(found),
                  bytes_of(wanted));
  }
  Walk walk({&found, &wanted}, budget_);
  uint64_t at = 0;
  while (walk.next()) {
    if (!walk.alike(0, 1)) {
      const Piece &is = walk.piece(0), &must = walk.piece(1);
      return refuse('e', "byte {} of rank {}'s output (buffer {}) ends as {}; it must be {}", at,
                    rank, memory.buffer, meaning_.describe(is), meaning_.describe(must));
    }
    at += walk.rows() * walk.bytes();
  }
  return budget_.exhausted() ? budget_.status() : Status();
}

// What is left are bytes between the rows of a matrix, which are not ours.
Status Judge::check_untouched(const Memory& memory) {
  for (const Rect& rect : footprint_.operand_rects(memory)) {
    for (uint32_t row = rect.row0; row < rect.row1; ++row) {
      for (uint32_t column = rect.column0; column < rect.column1; ++column) {
        written_[memory.cell(row, column)] = false;
      }
    }
  }
  for (uint32_t i = 0; i < memory.cell_count(); ++i) {
    if (!written_[memory.first_cell + i]) continue;
    return refuse('e', "bytes of buffer {} that are no output of {} are written", memory.buffer,
                  sk::describe(plan_.op));
  }
  return Status();
}

Status Judge::check_output(uint32_t rank) {
  const Operands& operands = footprint_.operands();
  uint32_t found = 0;  // A bit for each operand whose memory it is.
  for (const Memory& memory : footprint_.memories()) {
    if (memory.owner != rank || memory.kind == BufferKind::kWorkspace ||
        memory.kind == BufferKind::kInput) {
      continue;
    }
    const uint32_t home = operands.home(memory.operand);
    found |= 1u << home;
    SK_RETURN_IF_ERROR(check_piecewise(memory, callers_.behind(home, cast_.rank(rank)), rank));
    SK_RETURN_IF_ERROR(check_untouched(memory));
  }
  for (uint32_t home = 0; home < plan_.op.schema().operands.size(); ++home) {
    if ((found >> home & 1) != 0 || !callers_.has_results(home, cast_.rank(rank))) continue;
    const Stream wanted = callers_.behind(home, cast_.rank(rank));
    Stream is;
    callers_.given(home, cast_.rank(rank)).bytes(0, bytes_of(wanted), &is);
    if (!same(is, wanted, budget_))
      return refuse('e', "the output of rank {} is in no buffer", rank);
  }
  return Status();
}

}  // namespace sk::check
