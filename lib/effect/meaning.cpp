#include "lib/effect/meaning.h"

#include <algorithm>

#include "lib/effect/no.h"

namespace sk::effect {

int64_t Index::at(const Iterators& values) const {
  int64_t sum = base;
  for (size_t i = 0; i < values.size(); ++i) sum += factor[i] * values[i];
  return sum;
}

int Index::alone() const {
  int found = -1;
  for (size_t i = 0; i < factor.size(); ++i) {
    if (factor[i] == 0) continue;
    if (factor[i] != 1 || found >= 0) return -1;
    found = int(i);
  }
  return base == 0 ? found : -1;
}

bool Function::whole_only(int iterator) const {
  return (iterator == uncut && block == 0) ||
         std::find(inside.begin(), inside.end(), iterator) != inside.end();
}

bool Function::element_by_element() const {
  if (joins || !inside.empty()) return false;
  return std::all_of(in.begin(), in.end(), [&](const Projection& each) {
    return each.rank == out.rank && each.index == out.index;
  });
}

const Joining* Meaning::joining(uint32_t array, RedOp redop) const {
  for (const Joining& each : joinings_) {
    if (each.array == array && each.redop == redop) return &each;
  }
  return nullptr;
}

// Whether some array holds the term as `dtype`.
bool Meaning::is_stored(const Term& term, DType dtype) const {
  return std::any_of(joinings_.begin(), joinings_.end(), [&](const Joining& each) {
    return each.array == term.array && array(each.out).dtype == dtype && each.is_whole(term);
  });
}

// Whether it is an element that the caller gave, as it was given: it is the same as an accumulator
// holds it. What a function makes has been rounded where it is not wide.
bool Meaning::is_given(const Term& term) const {
  return term.fold == 0 && !term.rounded && term.dtype == array(term.array).dtype &&
         std::none_of(functions_.begin(), functions_.end(),
                      [&](const Function& each) { return each.out.array == term.array; });
}

Status Meaning::store(Term* term, DType dtype) const {
  if (dtype == term->dtype) return Status();
  if (is_given(*term) && dtype == accumulator(term->dtype)) {
    term->dtype = dtype;
    return Status();
  }
  if (term->rounded) {
    return no("{} has been rounded already", describe(*term));
  }
  if (!is_stored(*term, dtype)) {
    return no("{} is not to be kept as {}", describe(*term), dtype_name(dtype));
  }
  term->dtype = dtype;
  term->rounded = true;
  return Status();
}

const Meaning::Move* Meaning::move_to(uint32_t array) const {
  for (const Move& each : moves_) {
    if (each.out_array == array) return &each;
  }
  return nullptr;
}

uint64_t Meaning::Radix::split(uint64_t at, uint64_t length, Iterators* values) const {
  if (outer >= 0) (*values)[size_t(outer)] = int64_t(at / extent);
  const uint64_t inside = outer >= 0 ? at % extent : at;
  if (inner >= 0) (*values)[size_t(inner)] = int64_t(inside);
  return outer >= 0 ? std::min(length, extent - inside) : length;
}

Piece Meaning::own(uint32_t number, uint32_t rank, const Rect& stored, bool turned) const {
  const uint64_t element = dtype_bytes(array(number).dtype);
  return {.term = {.array = uint8_t(number),
                   .dtype = array(number).dtype,
                   .turned = turned,
                   .first = rank,
                   .last = rank + 1},
          .rows = stored.rows,
          .bytes = stored.cols * element,
          .row = stored.row0,
          .column = stored.col0 * element};
}

uint32_t Meaning::origin(uint32_t number) const {
  const Move* move = move_to(number);
  return move == nullptr || move->joined >= 0 ? number : origin(move->in.array);
}

bool Meaning::hold(uint32_t number, uint32_t rank, const Rect& rect, Stream* out) const {
  return hold_in(number, rank, rect, /*turned=*/false, out);
}
bool Meaning::hold_turned(uint32_t number, uint32_t rank, const Rect& rect, Stream* out) const {
  return hold_in(number, rank, rect, /*turned=*/true, out);
}

bool Meaning::hold_in(uint32_t number, uint32_t rank, const Rect& rect, bool turned,
                      Stream* out) const {
  if (rect.empty()) return true;
  const Move* move = move_to(number);
  if (move == nullptr) {
    append(*out, own(number, rank, turned ? Rect{rect.col0, rect.cols, rect.row0, rect.rows} : rect,
                     turned));
    return true;
  }
  if (turned && move->joined >= 0) return false;
  const uint64_t element = dtype_bytes(array(number).dtype);
  Iterators at{};
  const int ranks = move->out_rank.alone();
  if (ranks >= 0) {
    at[size_t(ranks)] = rank;
  } else if (move->out_rank.base != int64_t(rank)) {
    return false;
  }
  Term whole;
  if (move->joined >= 0) {
    const Joining& joining = joinings_[move->joining];
    whole = joining.whole();
    whole.rounded = whole.dtype != array(number).dtype;
    whole.dtype = array(number).dtype;
  }
  // Lines are rows, or columns where it is turned: one by one where what is in one lies apart.
  const size_t across = turned ? 1 : 0, along = 1 - across;
  const std::array<uint64_t, kAxesMax> first{rect.row0, rect.col0},
      end{rect.row0 + rect.rows, rect.col0 + rect.cols};
  const uint64_t length = end[along] - first[along];
  const bool by_line = move->out_index[along].split(first[along], length, &at) < length;
  std::array<uint64_t, kAxesMax> place = first, count{};
  for (; place[across] < end[across]; place[across] += count[across]) {
    count[across] = move->out_index[across].split(place[across],
                                                  by_line ? 1 : end[across] - place[across], &at);
    for (place[along] = first[along]; place[along] < end[along]; place[along] += count[along]) {
      count[along] = move->out_index[along].split(place[along], end[along] - place[along], &at);
      const Rect from{uint64_t(move->in.index[0].at(at)), count[0],
                      uint64_t(move->in.index[1].at(at)), count[1]};
      if (move->joined < 0) {
        if (!hold_in(move->in.array, uint32_t(move->in.rank.at(at)), from, turned, out))
          return false;
        continue;
      }
      append(*out, {.term = whole,
                    .rows = from.rows,
                    .bytes = from.cols * element,
                    .row = from.row0,
                    .column = from.col0 * element});
    }
  }
  return true;
}

std::string Meaning::describe(const Term& term) const {
  if (term.is_nothing()) return "nothing that was written";
  const std::string_view name = array(term.array).name;
  if (term.fold == 0) return fmt::format("{} of rank {}", name, term.first);
  const Joining& joining = joinings_[term.fold - 1u];
  if (joining.any_order) {
    return fmt::format("the {} of {} contribution(s) to {}", redop_name(joining.redop), term.last,
                       name);
  }
  uint32_t first = term.first, last = term.last;
  for (uint32_t depth = term.depth; depth > 0; --depth) {
    first *= joining.blocks[depth - 1];
    last *= joining.blocks[depth - 1];
  }
  return fmt::format("the {} of {} of ranks {} to {}", redop_name(joining.redop), name, first,
                     std::min(last, joining.count) - 1);
}

std::string Meaning::describe(const Piece& piece) const {
  const Term& term = piece.term;
  if (term.is_nothing()) return describe(term);
  if (term.laid_out) {
    return fmt::format("byte {} of a block of {} in another order", piece.column, describe(term));
  }
  return fmt::format("{} as {}{}{}, row {}, byte {}", describe(term), dtype_name(term.dtype),
                     term.rounded ? ", rounded" : "", term.turned ? ", column after column" : "",
                     piece.row, piece.column);
}

Term Blocks::lay_out(const Term& term, const Block& block) {
  const Rect& rect = block.rect;
  const std::array<uint64_t, 7> key{uint64_t(reinterpret_cast<uintptr_t>(block.layout)),
                                    block.array,
                                    rect.row0,
                                    rect.rows,
                                    rect.col0,
                                    rect.cols,
                                    block.bytes};
  const auto [entry, fresh] = known_.emplace(key, uint32_t(blocks_.size()));
  if (fresh) blocks_.push_back(block);
  Term out = term;
  out.laid_out = true;
  out.last = entry->second;
  return out;
}

}  // namespace sk::effect
