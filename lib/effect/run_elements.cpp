// Tiles that go over their regions element by element.
#include <algorithm>

#include "lib/base/article.h"
#include "lib/effect/no.h"
#include "lib/effect/run_forms.h"
#include "lib/op/values.h"

namespace sk::effect {
namespace {

class Elements {
 public:
  Elements(const TileCall& call, const Tile::Form& form)
      : call_(call), form_(form), step_(form.steps[0]) {}

  Result<Stream> run() {
    if (form_.regions.back().type < 0) return moved();
    SK_RETURN_IF_ERROR(check_shapes());
    std::vector<const Stream*> streams;
    streams.reserve(call_.inputs.size());
    for (const TileInput& input : call_.inputs) streams.push_back(&input.content);
    terms_.resize(streams.size());
    dtype_ = type_of(form_.role(0, call_.regions.size()));
    out_dtype_ = type_of(form_.regions.size() - 1);
    Walk walk(std::move(streams), call_.work);
    Stream out;
    while (walk.next()) SK_RETURN_IF_ERROR(run_block(walk, &out));
    return out;
  }

 private:
  DType type_of(size_t role) const {
    return DType(call_.parameters[size_t(form_.regions[role].type)]);
  }

  // Bytes, whatever they stand for.
  Result<Stream> moved() const {
    const Region &from = call_.regions.front(), &to = call_.regions.back();
    if (from.rows != to.rows || from.row_bytes != to.row_bytes) {
      return no("its regions have different shapes");
    }
    return call_.inputs.empty() ? Stream() : call_.inputs[0].content;
  }

  Status check_shapes() const {
    const size_t count = call_.regions.size();
    const Region& out = call_.regions.back();
    const uint64_t out_element = dtype_bytes(type_of(form_.regions.size() - 1));
    for (size_t i = 0; i < count; ++i) {
      const uint64_t element = dtype_bytes(type_of(form_.role(i, count)));
      const Region& region = call_.regions[i];
      if (region.offset % element != 0 || region.row_bytes % element != 0 ||
          (region.rows > 1 && region.pitch % element != 0)) {
        return no("region {} splits elements of {} bytes", i, element);
      }
      if (region.rows != out.rows || region.row_bytes / element != out.row_bytes / out_element) {
        return no("regions {} and {} have different shapes", i, count - 1);
      }
    }
    return Status();
  }

  Status run_block(const Walk& walk, Stream* out) {
    const Piece& first = walk.piece(0);
    const uint64_t element = dtype_bytes(dtype_), out_element = dtype_bytes(out_dtype_);
    for (size_t i = 0; i < walk.size(); ++i) {
      const Piece& piece = walk.piece(i);
      terms_[i] = piece.term;
      if (piece.term.is_nothing() || piece.term.laid_out) {
        return no("input {} is {}", i, call_.meaning.describe(piece));
      }
      if (piece.term.dtype != dtype_) {
        return no("it reads {} as {}", dtype_name(piece.term.dtype), dtype_name(dtype_));
      }
      if (piece.term.array != first.term.array && step_.joins) {
        return no("it joins {} with {}", call_.meaning.describe(first.term),
                  call_.meaning.describe(piece.term));
      }
      if (piece.row != first.row || piece.column != first.column ||
          piece.term.turned != first.term.turned) {
        return no("it joins element {} of row {} with element {} of row {}", first.column / element,
                  first.row, piece.column / element, piece.row);
      }
    }
    SK_ASSIGN_OR_RETURN(Term term, step_.joins ? joined() : made());
    SK_RETURN_IF_ERROR(call_.meaning.store(&term, out_dtype_));
    if (first.column % element != 0 || walk.bytes() % element != 0) {
      return no("it splits an element");
    }
    append(*out, {.term = term,
                  .rows = walk.rows(),
                  .bytes = walk.bytes() / element * out_element,
                  .row = first.row,
                  .column = first.column / element * out_element});
    return Status();
  }

  // Of one element it is that element.
  Result<Term> joined() const {
    if (terms_.size() == 1) return terms_[0];
    const RedOp redop = RedOp(call_.tile.value(step_.monoid, call_.parameters));
    return join(call_.meaning, redop, terms_);
  }

  Result<Term> made() const {
    if (step_.function.empty()) return terms_[0];
    for (const Function& function : call_.meaning.functions()) {
      if (!is_of(function)) continue;
      SK_RETURN_IF_ERROR(check_bindings(call_, step_, function));
      if (terms_[0].first != call_.rank) {  // Machines may differ in the last bit: one makes it.
        return no("{} of {} is that rank's to make", step_.function,
                  call_.meaning.describe(terms_[0]));
      }
      return Term{.array = function.out.array,
                  .dtype = call_.meaning.array(function.out.array).dtype,
                  .turned = terms_[0].turned,
                  .first = terms_[0].first,
                  .last = terms_[0].last};
    }
    return no("nothing is said of {} of {}", step_.function, call_.meaning.describe(terms_[0]));
  }

  bool is_of(const Function& function) const {
    if (function.name != step_.function || !function.element_by_element() ||
        function.in.size() != terms_.size()) {
      return false;
    }
    for (size_t i = 0; i < terms_.size(); ++i) {
      const Term& term = terms_[i];
      if (term.array != function.in[i].array || term.fold != 0 || term.rounded ||
          term.first != terms_[0].first) {
        return false;
      }
    }
    return true;
  }

  const TileCall& call_;
  const Tile::Form& form_;
  const Tile::Do& step_;
  std::vector<Term> terms_;
  DType dtype_ = DType::kF32, out_dtype_ = DType::kF32;
};

// As texts of plans have it (text_words.h).
std::string told(int64_t value, bool is_float) {
  if (value >= kRunValue && value < kRunValue + int64_t(kRunValuesMax)) {
    return fmt::format("run.{}", value - kRunValue);
  }
  return is_float ? fmt::to_string(float_of(value)) : fmt::to_string(value);
}

}  // namespace

Result<Term> join(const Meaning& meaning, RedOp redop, std::span<const Term> terms) {
  const Joining* joining = meaning.joining(terms[0].array, redop);
  if (joining == nullptr) {
    return no("nothing is said of {} of {}", with_article(redop_name(redop)),
              meaning.describe(terms[0]));
  }
  return joining->join(terms);
}

Status check_bindings(const TileCall& call, const Tile::Do& step, const Function& function) {
  for (const Function::Bound& must : function.bind) {
    const auto* const is = std::find_if(step.bind.begin(), step.bind.end(),
                                        [&](const auto& each) { return each.name == must.name; });
    if (is == step.bind.end()) return no("{} has no {}", function.name, must.name);
    const int64_t value = call.tile.value(is->value, call.parameters);
    if (value != must.value) {
      return no("the {} of {} is {}, it must be {}", must.name, function.name,
                told(value, must.is_float), told(must.value, must.is_float));
    }
  }
  if (step.bind.size() == function.bind.size()) return Status();
  return no("{} has parameters of which nothing is said", function.name);
}

Result<Outputs> run_elements(const TileCall& call, const Tile::Form& form) {
  SK_ASSIGN_OR_RETURN(Stream everywhere, Elements(call, form).run());
  return Outputs(std::move(everywhere));
}

Result<Outputs> run(const TileCall& call) {
  const Tile::Form* form = call.tile.form(call.parameters);
  if (form == nullptr) return no("it has no such form");
  if (call.tile.record().refuses != nullptr) {
    std::string sentence = call.tile.record().refuses(call.parameters);
    if (!sentence.empty()) return no("{}", sentence);
  }
  return form->ranges.empty() ? run_elements(call, *form) : run_ranges(call, *form);
}

}  // namespace sk::effect
