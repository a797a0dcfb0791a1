// Tiles whose parameters say which part of an array they make.
#include <algorithm>

#include "lib/effect/no.h"
#include "lib/effect/run_forms.h"

namespace sk::effect {
namespace {

struct Span {
  uint64_t first = 0, count = 1, whole = 1;
};

// What a step has made: elements of one array.
struct Made {
  Term term;
  Rect rect;
};

class Ranges {
 public:
  Ranges(const TileCall& call, const Tile::Form& form)
      : call_(call), form_(form), meaning_(call.meaning) {}

  Result<Outputs> run() {
    SK_RETURN_IF_ERROR(find_spans());
    Outputs out;
    for (const Tile::Do& step : form_.steps) {
      SK_ASSIGN_OR_RETURN(const Made made, run_step(step));
      if (step.out.at == Tile::Place::kOwn) {
        own_ = made;
      } else {
        SK_ASSIGN_OR_RETURN(Stream left, leave(step.out, made));
        out.add(uint32_t(step.out.region), std::move(left));
        left_.emplace_back(step.out.region, made);
      }
    }
    return out;
  }

 private:
  const RegionRecord& record(int region) const { return *form_.regions[size_t(region)].record; }
  const Region& region(int number) const { return call_.regions[size_t(number)]; }
  int64_t parameter(int number) const { return call_.parameters[size_t(number)]; }

  Status find_spans() {
    for (size_t i = 0; i < form_.ranges.size(); ++i) {
      const Tile::Range& range = form_.ranges[i];
      const int64_t first = call_.tile.value(range.first, call_.parameters);
      const int64_t count = call_.tile.value(range.count, call_.parameters);
      const int64_t whole = call_.tile.value(range.whole, call_.parameters);
      if (first < 0 || count < 0 || whole < 0 || first > whole || count > whole - first) {
        return no("it has {} of {} from {} on", count, whole, first);
      }
      spans_.push_back({uint64_t(first), uint64_t(count), uint64_t(whole)});
    }
    return Status();
  }

  Rect rect(const Tile::Place& place) const {
    const Span rows = span_in(place, 0), cols = span_in(place, 1);
    return {rows.first, rows.count, cols.first, cols.count};
  }
  // Of blocks: those that what is there is cut into, which begins and ends with whole ones.
  Span span_in(const Tile::Place& place, size_t axis) const {
    const Span out = span(place.index[axis]);
    if (place.blocks_of < 0 || place.index[axis] != place.blocks_of) return out;
    const uint64_t block = std::max<uint64_t>(1, block_of(place));
    const auto blocks = [&](uint64_t count) { return count / block + (count % block != 0); };
    return {out.first / block, blocks(out.count), blocks(out.whole)};
  }
  // 0 where it is of elements, or of blocks that are none.
  uint64_t block_of(const Tile::Place& place) const {
    if (place.blocks_of < 0) return 0;
    return uint64_t(std::max<int64_t>(0, call_.tile.value(place.block, call_.parameters)));
  }
  Rect whole_rect(const Tile::Place& place) const {
    return {0, span(place.index[0]).whole, 0, span(place.index[1]).whole};
  }
  Span span(int iterator) const { return iterator < 0 ? Span() : spans_[size_t(iterator)]; }

  const TileInput* input(int number, uint32_t entry = 0) const {
    const auto key = [](const TileInput& each) { return std::pair(each.region, each.entry); };
    const std::pair wanted(uint32_t(number), entry);
    const auto found =
        std::lower_bound(call_.inputs.begin(), call_.inputs.end(), wanted,
                         [&](const TileInput& each, const auto& at) { return key(each) < at; });
    return found != call_.inputs.end() && key(*found) == wanted ? &*found : nullptr;
  }

  Result<Made> run_step(const Tile::Do& step) {
    if (step.function.empty() && step.joins && !step.uncut) return joined(step);
    if (step.function.empty() && !step.joins) return moved(step);
    return made(step);
  }

  // What an earlier step has left in a region, where a later one reads it; else null.
  const Made* left_in(const Tile::Place& place) const {
    for (const auto& [region, made] : left_) {
      if (region == place.region) return &made;
    }
    return nullptr;
  }

  // The array of what the region holds first; 0 where it holds nothing.
  uint8_t array_in(const Tile::Place& place) const {
    if (const Made* left = left_in(place)) return left->term.array;
    const TileInput* in = input(place.region);
    return in == nullptr || in->content.empty() ? uint8_t(0) : in->content[0].term.array;
  }

  Result<Made> moved(const Tile::Do& step) {
    const Tile::Place& place = step.in[0];
    const Rect part = rect(place);
    if (part.empty()) return Made{{}, rect(step.out)};  // Nothing is what it reads and leaves.
    const uint8_t array = array_in(place);
    if (array == 0) return no("{} holds nothing that was written", record(place.region).name);
    const ArrayInfo& info = meaning_.array(array);
    const Rect whole = whole_rect(place);
    if (info.rows != whole.rows || info.cols != whole.cols) {
      return no("it goes over {} x {} of {}, which has {} x {}", whole.rows, whole.cols, info.name,
                info.rows, info.cols);
    }
    SK_RETURN_IF_ERROR(check_input(place, array, call_.rank));
    return Made{element(array), rect(step.out)};
  }

  Term element(uint8_t array) const {
    return {.array = array,
            .dtype = meaning_.array(array).dtype,
            .first = call_.rank,
            .last = call_.rank + 1};
  }

  // The step of the operation that this one stands for.
  const Function* function_of(const Tile::Do& step) const {
    const RedOp redop = RedOp(call_.tile.value(step.monoid, call_.parameters));
    const Function* first = nullptr;
    for (const Function& each : meaning_.functions()) {
      if (each.name != step.function || each.joins != step.joins ||
          each.in.size() != step.in.size() || (each.joins && each.redop != redop)) {
        continue;
      }
      bool of_these = true;
      for (size_t i = 0; i < step.in.size(); ++i) {
        const uint8_t array = array_in(step.in[i]);
        of_these &= array == 0 || array == meaning_.origin(each.in[i].array);
      }
      if (of_these) return &each;
      if (first == nullptr) first = &each;
    }
    return first;
  }

  // Both go over their arrays alike, by whatever names, and over as much.
  Status check_iterators(const Tile::Do& step, const Function& function) const {
    std::array<int, Tile::kRangesMax> same;
    same.fill(-1);
    bool alike = true;
    const auto compare = [&](const Tile::Place& place, const Projection& projection) {
      for (size_t axis = 0; axis < kAxesMax; ++axis) {
        const int here = place.index[axis], there = projection.index[axis].alone();
        if (here < 0 || there < 0) {
          alike &= here == there && projection.index[axis] == Index();
        } else if (int& known = same[size_t(here)]; known < 0) {
          known = there;
        } else {
          alike &= known == there;
        }
      }
    };
    compare(step.out, function.out);
    for (size_t i = 0; i < step.in.size(); ++i) compare(step.in[i], function.in[i]);
    if (step.joins) alike &= same[size_t(step.over)] == function.uncut;
    alike &= step.inside.size() == function.inside.size();
    for (size_t i = 0; alike && i < step.inside.size(); ++i) {
      alike &= same[size_t(step.inside[i])] == function.inside[i];
    }
    if (!alike) return no("it goes over its regions otherwise than its operation");
    SK_RETURN_IF_ERROR(check_blocks(step, function));
    for (size_t here = 0; here < form_.ranges.size(); ++here) {
      if (same[here] < 0) continue;
      const Span& span = spans_[here];
      const std::string_view name = form_.ranges[here].name;
      const uint64_t extent = uint64_t(function.extent[size_t(same[here])]);
      if (span.whole != extent) {
        return no("it goes over {} {}, the operation over {}", span.whole, name, extent);
      }
      if (function.whole_only(same[here]) && span.count != extent) {
        return no("it has {} of {} {}, which are not to be cut", span.count, extent, name);
      }
    }
    return Status();
  }

  // What is summed in blocks is cut between them and nowhere else.
  Status check_blocks(const Tile::Do& step, const Function& function) const {
    const uint64_t block = block_of(step.out);
    if ((step.out.blocks_of >= 0) != (function.block != 0) || block != function.block) {
      return no("it sums blocks of {}, the operation of {}", block, function.block);
    }
    if (block == 0) return Status();
    const Span& over = spans_[size_t(step.over)];
    const uint64_t end = over.first + over.count;
    if (over.first % block == 0 && (end % block == 0 || end == over.whole)) return Status();
    return no("it sums {} of {} from {} on, blocks of {} are not to be cut", over.count, over.whole,
              over.first, block);
  }

  Result<Made> made(const Tile::Do& step) {
    const Function* function = function_of(step);
    if (function == nullptr) return no("nothing is said of {}", step.function);
    SK_RETURN_IF_ERROR(check_iterators(step, *function));
    SK_RETURN_IF_ERROR(check_bindings(call_, step, *function));
    for (size_t i = 0; i < step.in.size(); ++i) {
      const Projection& from = function->in[i];
      const uint32_t rank = from.rank.alone() >= 0 ? call_.rank : uint32_t(from.rank.base);
      SK_RETURN_IF_ERROR(check_input(step.in[i], from.array, rank));
    }
    return Made{element(function->out.array), rect(step.out)};
  }

  // Whether a region that is read holds its part of the array, as the tile takes it to lie.
  Status check_input(const Tile::Place& place, uint8_t array, uint32_t rank) const {
    const Tile::RegionOf& of = form_.regions[size_t(place.region)];
    const RegionRecord& role = *of.record;
    const ArrayInfo& info = meaning_.array(array);
    const DType stored = of.type < 0 ? info.dtype : DType(parameter(of.type));
    const DType dtype = of.sums ? accumulator(stored) : stored;
    if (dtype != info.dtype) {
      return no("it reads {} as {}", dtype_name(info.dtype), dtype_name(dtype));
    }
    const Rect part = rect(place);
    if (part.empty()) return Status();
    if (const Made* left = left_in(place)) {
      if (left->term == element(array) && rank == call_.rank && left->rect == part) return Status();
      return no("it reads {} otherwise than it has left it", role.name);
    }
    const TileInput* in = input(place.region);
    if (in == nullptr) return no("it reads no {}", role.name);
    const Rect held = role.whole ? whole_rect(place) : part;
    if (role.layout != nullptr) return check_block(place.region, in->content, array, rank, held);
    return check_rows(of, place.region, in->content, array, rank, held);
  }

  Status check_rows(const Tile::RegionOf& of, int number, const Stream& content, uint8_t array,
                    uint32_t rank, const Rect& held) const {
    const uint64_t element = dtype_bytes(meaning_.array(array).dtype);
    const bool turned = of.turned_by >= 0 && parameter(of.turned_by) != 0;
    const Region& here = region(number);
    Stream must;
    const bool known = turned ? meaning_.hold_turned(array, rank, held, &must)
                              : meaning_.hold(array, rank, held, &must);
    const uint64_t rows = turned ? held.cols : held.rows, cols = turned ? held.rows : held.cols;
    if (!known || here.rows != rows || here.row_bytes != cols * element ||
        !same(content, must, call_.work)) {
      return no("{} is not rows {} to {} and columns {} to {} of its rank's {}{}", of.record->name,
                held.row0, held.row0 + held.rows - 1, held.col0, held.col0 + held.cols - 1,
                meaning_.array(array).name, turned ? ", column after column" : "");
    }
    SK_RETURN_IF_ERROR(check_elements(number, element));
    uint64_t before = 0;
    if (of.record->from_first_row &&
        (__builtin_mul_overflow(held.row0, here.pitch, &before) || before >= uint64_t(1) << 48)) {
      return no("{} rows of {} with pitch {} lie before the tile", held.row0, of.record->name,
                here.pitch);
    }
    return Status();
  }

  // Kernels count rows in elements, and stores past the caches need whole lines.
  Status check_elements(int number, uint64_t element) const {
    const Region& here = region(number);
    if (here.offset % element == 0 && (here.rows <= 1 || here.pitch % element == 0)) {
      return Status();
    }
    return no("region {} splits elements of {} bytes", number, element);
  }

  Status check_place(int number, const Rect& held, uint64_t element) const {
    const Layout& layout = *record(number).layout;
    const Region& here = region(number);
    if (here.rows != 1 || here.offset % kTileLayoutAlign != 0) {
      return no("a {} is one row that begins at a multiple of {} bytes, not {} at {}", layout.name,
                kTileLayoutAlign, here.rows, here.offset);
    }
    const uint64_t least = layout.bytes(held.rows, held.cols, element);
    if (here.row_bytes >= least) return Status();
    return no("{} bytes hold no {} of {} x {}, which takes {}", here.row_bytes, layout.name,
              held.rows, held.cols, least);
  }

  // One block, or strips of columns side by side, in their order and each at its place.
  Status check_block(int number, const Stream& content, uint8_t array, uint32_t rank,
                     const Rect& held) const {
    const RegionRecord& role = record(number);
    const Layout& layout = *role.layout;
    const ArrayInfo& info = meaning_.array(array);
    const uint64_t element = dtype_bytes(info.dtype), bytes = region(number).row_bytes;
    SK_RETURN_IF_ERROR(check_place(number, held, element));
    uint64_t column = held.col0, at = 0;
    for (const Piece& piece : content) {
      const Block* block = call_.blocks.of(piece.term);
      if (block == nullptr || block->layout != role.layout || block->array != array ||
          piece.term.first != rank || piece.rows != 1 || piece.column != 0 ||
          piece.bytes != block->bytes || block->rect.row0 != held.row0 ||
          block->rect.rows != held.rows || block->rect.col0 != column ||
          block->rect.cols > held.col0 + held.cols - column) {
        return no("{} is not the {} of its rank's {}, from column {} on", role.name, layout.name,
                  info.name, column);
      }
      if (block->bytes != bytes) {
        SK_RETURN_IF_ERROR(check_strip(layout, *block, at, column - held.col0, held, bytes));
      }
      column += block->rect.cols;
      at += piece.bytes;
    }
    if (column == held.col0 + held.cols) return Status();
    return no("{} ends at column {} of {}", role.name, column, held.col0 + held.cols);
  }

  Status check_strip(const Layout& layout, const Block& strip, uint64_t at, uint64_t column,
                     const Rect& held, uint64_t bytes) const {
    if (layout.pitch == nullptr || !call_.strips) {
      return no("a {} is written by one task, not by several", layout.name);
    }
    const uint64_t element = dtype_bytes(meaning_.array(strip.array).dtype);
    const uint64_t pitch = layout.pitch(held.rows, held.cols, element, bytes);
    const uint64_t own = layout.pitch(held.rows, strip.rect.cols, element, strip.bytes);
    if (at == column * pitch && (strip.rect.cols == 1 || own == pitch)) return Status();
    return no("columns from {} on lie at byte {} with pitch {}, in a {} of pitch {}", column, at,
              own, layout.name, pitch);
  }

  // Of entries, which are blocks: of other ranks, and the one that the task has made itself.
  Result<Made> joined(const Tile::Do& step) {
    const Tile::Place& place = step.in[0];
    const Rect part = rect(place);
    const Region& here = region(place.region);
    std::vector<Term> terms;
    terms.reserve(here.buffer_count);
    for (uint32_t entry = 0; entry < here.buffer_count; ++entry) {
      if (place.region == form_.own_region && int64_t(entry) == parameter(form_.own_parameter)) {
        if (own_.rect != part)
          return no("its own entry of {} is another tile", record(place.region).name);
        terms.push_back(own_.term);
        continue;
      }
      const TileInput* in = input(place.region, entry);
      const Block* block =
          in == nullptr || in->content.empty() ? nullptr : call_.blocks.of(in->content[0].term);
      if (block == nullptr || in->content.size() != 1 || in->content[0].column != 0 ||
          in->content[0].bytes != block->bytes || block->layout != record(place.region).layout ||
          block->rect != part) {
        return no("entry {} of its {} is not this tile's", entry, record(place.region).name);
      }
      terms.push_back(Blocks::read(in->content[0].term));
    }
    if (place.region == form_.own_region && parameter(form_.own_parameter) >= here.buffer_count) {
      return no("{} is {} of {}", call_.tile.record().parameters[size_t(form_.own_parameter)],
                parameter(form_.own_parameter), here.buffer_count);
    }
    for (const Term& term : terms) {
      if (term.array != terms[0].array || term.is_nothing()) {
        return no("it joins {} with {}", meaning_.describe(terms[0]), meaning_.describe(term));
      }
    }
    SK_RETURN_IF_ERROR(check_place(place.region, part, dtype_bytes(terms[0].dtype)));
    if (terms.size() == 1) return Made{terms[0], rect(step.out)};
    const RedOp redop = RedOp(call_.tile.value(step.monoid, call_.parameters));
    SK_ASSIGN_OR_RETURN(const Term sum, join(meaning_, redop, terms));
    return Made{sum, rect(step.out)};
  }

  Result<Stream> leave(const Tile::Place& place, const Made& made) {
    const RegionRecord& role = record(place.region);
    const Region& here = region(place.region);
    if (made.term.is_nothing()) return Stream(Piece{.bytes = here.rows * here.row_bytes});
    const Tile::RegionOf& of = form_.regions[size_t(place.region)];
    Term term = made.term;
    if (role.layout != nullptr) {
      SK_RETURN_IF_ERROR(check_place(place.region, made.rect, dtype_bytes(term.dtype)));
      term = call_.blocks.lay_out(term, {role.layout, term.array, made.rect, here.row_bytes});
      return Stream(Piece{.term = term, .bytes = here.row_bytes});
    }
    const DType dtype = of.type < 0 ? term.dtype : DType(parameter(of.type));
    SK_RETURN_IF_ERROR(meaning_.store(&term, of.sums ? accumulator(dtype) : dtype));
    const uint64_t element = dtype_bytes(term.dtype);
    if (here.rows != made.rect.rows || here.row_bytes != made.rect.cols * element) {
      return no("{} is no tile of {} x {}", role.name, made.rect.rows, made.rect.cols);
    }
    SK_RETURN_IF_ERROR(check_elements(place.region, element));
    return Stream(Piece{.term = term,
                        .rows = made.rect.rows,
                        .bytes = made.rect.cols * element,
                        .row = made.rect.row0,
                        .column = made.rect.col0 * element});
  }

  const TileCall& call_;
  const Tile::Form& form_;
  const Meaning& meaning_;
  Few<Span, Tile::kRangesMax> spans_;       // By iterator.
  Made own_;                                // The entry that the task makes itself.
  std::vector<std::pair<int, Made>> left_;  // By region: what steps have made so far.
};

}  // namespace

Result<Outputs> run_ranges(const TileCall& call, const Tile::Form& form) {
  return Ranges(call, form).run();
}

}  // namespace sk::effect
