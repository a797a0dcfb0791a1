#include "lib/effect/term.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "lib/effect/no.h"

namespace sk::effect {
namespace {

uint64_t mixed(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

// Sums of hashes that are known beforehand can be forged: ranks for which others came twice or
// never were found in a minute. So every process has a key; without one the judge is as before.
Hash Joining::hash_of(uint32_t rank) {
  static const std::array<uint64_t, 2> key = [] {
    std::array<uint64_t, 2> drawn{};
    if (getentropy(drawn.data(), sizeof(drawn)) != 0) drawn = {};
    return drawn;
  }();
  const uint64_t seed = (uint64_t(rank) + 1) * 0x9e3779b97f4a7c15u;
  return {mixed(mixed(seed ^ key[0]) + key[1]), mixed(mixed(seed ^ key[1]) + ~key[0])};
}

uint32_t Joining::count_at(uint32_t depth) const {
  uint32_t elements = count;
  for (uint32_t d = 0; d < depth; ++d) elements = (elements + blocks[d] - 1) / blocks[d];
  return elements;
}

uint32_t Joining::block_begin(uint32_t depth, uint32_t element) const {
  return depth < blocks.size() ? element / blocks[depth] * blocks[depth] : 0;
}

uint32_t Joining::block_end(uint32_t depth, uint32_t element) const {
  const uint32_t elements = count_at(depth);
  if (depth >= blocks.size()) return elements;
  return std::min(elements, block_begin(depth, element) + blocks[depth]);
}

bool Joining::is_block(const Term& term) const {
  return term.first == block_begin(term.depth, term.first) &&
         term.last == block_end(term.depth, term.first);
}

uint32_t Joining::first_of(const Term& term) const {
  uint32_t first = term.first;
  for (uint32_t depth = term.depth; depth > 0; --depth) first *= blocks[depth - 1];
  return first;
}

void Joining::lower(Term* term) const {
  while (term->last - term->first == 1 && term->depth > 0) {
    --term->depth;
    const uint32_t begin = term->first * blocks[term->depth];
    term->first = begin;
    term->last = block_end(term->depth, begin);
  }
  term->fold = term->last - term->first == 1 ? 0 : uint8_t(number + 1);
}

void Joining::raise(Term* term) const {
  term->first /= blocks[term->depth];
  term->last = term->first + 1;
  ++term->depth;
}

Term Joining::whole() const {
  Term term{.array = array, .dtype = count > 1 ? accumulator(dtype) : dtype};
  if (count <= 1) return term;
  if (any_order) {
    term.fold = uint8_t(number + 1);
    term.last = count;
    term.hash = all;
    return term;
  }
  term.depth = uint8_t(blocks.size());
  term.last = count_at(term.depth);
  lower(&term);
  return term;
}

bool Joining::is_whole(const Term& term) const {
  Term all_of_it = whole();
  all_of_it.dtype = term.dtype;
  all_of_it.rounded = term.rounded;
  all_of_it.turned = term.turned;
  return term == all_of_it;
}

Status Joining::check_input(const Term& term, size_t index) const {
  if (term.rounded) return no("input {} has been rounded already", index);
  if (term.fold != 0 && term.fold != number + 1) {
    return no("input {} has been joined by another step already", index);
  }
  if (term.fold != 0 && redop == RedOp::kAvg) return no("input {} is an avg already", index);
  if (term.dtype != accumulator(dtype) && (term.fold != 0 || term.dtype != dtype)) {
    return no("input {} is {}", index, dtype_name(term.dtype));
  }
  return Status();
}

Term Joining::start(const Term& first) const {
  Term sum = first;
  if (any_order && sum.fold == 0) {
    sum.hash = hash_of(sum.first);
    sum.first = 0;
    sum.last = 1;
  }
  return sum;
}

Status Joining::grow(Term* sum, Term next, size_t index) const {
  if (any_order) {
    next = start(next);
    sum->hash += next.hash;
    if (next.last > count - std::min(count, sum->last)) {
      return no("input {} makes it {} contributions, where there are {}", index,
                uint64_t(sum->last) + next.last, count);
    }
    sum->last += next.last;
    if (sum->last == count && sum->hash != all) {
      return no("the {} contributions are not one of each rank", count);
    }
    return Status();
  }
  while (is_block(*sum) && sum->depth < blocks.size()) raise(sum);
  if (is_block(*sum)) return no("input {} comes after all contributions", index);
  if (sum->first != block_begin(sum->depth, sum->first)) {
    return no("it begins with rank {}'s contribution, not with the first in order", first_of(*sum));
  }
  while (next.depth < sum->depth && is_block(next)) raise(&next);
  if (next.depth != sum->depth) {
    return no("input {} is rank {}'s contribution, of a block that is not whole", index,
              first_of(next));
  }
  if (next.last - next.first != 1) {
    return no("input {} joins contributions from rank {}'s on already, which is not in rank order",
              index, first_of(next));
  }
  if (next.first != sum->last) {
    sum->first = sum->last;
    return no("input {} is rank {}'s contribution, where rank {}'s is next in order", index,
              first_of(next), first_of(*sum));
  }
  ++sum->last;
  return Status();
}

Result<Term> Joining::join(std::span<const Term> terms) const {
  for (size_t i = 0; i < terms.size(); ++i) SK_RETURN_IF_ERROR(check_input(terms[i], i));
  Term sum = start(terms[0]);
  for (size_t i = 1; i < terms.size(); ++i) SK_RETURN_IF_ERROR(grow(&sum, terms[i], i));
  sum.dtype = accumulator(dtype);
  if (any_order) {
    sum.fold = uint8_t(number + 1);
  } else {
    lower(&sum);
  }
  if (redop == RedOp::kAvg && !is_whole(sum)) {
    return no("it averages {} of {} contributions", terms.size(), count);
  }
  return sum;
}

}  // namespace sk::effect
