#include "lib/op/mismatch.h"

#include <algorithm>

#include "lib/op/words.h"

namespace sk {
namespace {

constexpr size_t kRanksNamed = 8, kGroupsNamed = 3;

struct Group {
  std::vector<uint32_t> ranks;
  uint64_t fingerprint;
  OpDesc op;
};

// The largest first; of equally large ones that of the lower rank.
std::vector<Group> group(std::vector<RankCall> calls) {
  std::sort(calls.begin(), calls.end(),
            [](const RankCall& a, const RankCall& b) { return a.rank < b.rank; });
  std::vector<Group> groups;
  for (const RankCall& call : calls) {
    const auto known = std::find_if(groups.begin(), groups.end(), [&](const Group& each) {
      return each.fingerprint == call.fingerprint;
    });
    if (known != groups.end()) {
      known->ranks.push_back(call.rank);
    } else {
      groups.push_back({{call.rank}, call.fingerprint, call.op});
    }
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Group& a, const Group& b) { return a.ranks.size() > b.ranks.size(); });
  return groups;
}

// A field as the caller knows it.
struct Field {
  std::string name;
  std::string value;
};

std::string yes(bool value) { return value ? "true" : "false"; }

std::string value_of(const Attribute& attribute, const OpDesc& op) {
  const int64_t value = word(op, attribute.member);
  switch (attribute.kind) {
    case AttributeKind::kBool:
      return yes((value != 0) != attribute.inverted);
    case AttributeKind::kRank:
      return fmt::to_string(value);
    case AttributeKind::kRedOp:
      return redop_name(RedOp(value));
  }
  return "?";
}

// The same fields in the same order for all descriptors of one kind: types, dimensions,
// attributes, strides, place.
std::vector<Field> fields_of(const OpDesc& op) {
  std::vector<Field> fields;
  const Schema* schema = schema_of(op.kind);
  if (schema == nullptr) return fields;
  for (const OperandSchema& operand : schema->operands) {
    const OperandSchema& first = schema->operands[0];
    if (&operand != &first && operand.type == first.type) continue;  // One word for both.
    fields.push_back({&operand == &first ? "dtype" : fmt::format("dtype of {}", operand.name),
                      dtype_name(DType(word(op, operand.type)))});
  }
  for (const Dimension& dimension : schema->dimensions) {
    fields.push_back({dimension.name, fmt::to_string(word(op, dimension.member))});
  }
  for (const Attribute& attribute : schema->attributes) {
    fields.push_back(
        {attribute.label[0] != '\0' ? attribute.label : attribute.name, value_of(attribute, op)});
  }
  for (const OperandSchema& operand : schema->operands) {
    if (operand.stride == Member::kNone) continue;
    fields.push_back(
        {fmt::format("stride of {}", operand.name), fmt::to_string(word(op, operand.stride))});
  }
  if (schema->has(Member::kInPlace)) fields.push_back({"in place", yes(op.in_place)});
  for (const OperandSchema& operand : schema->operands) {
    if (operand.symmetric == Member::kNone) continue;
    fields.push_back({fmt::format("{} in symmetric memory", operand.name),
                      yes(word(op, operand.symmetric) != 0)});
  }
  return fields;
}

// What of `odd` is not as in `usual`; "" where the calls are of different kinds.
std::string differences(const OpDesc& odd, const OpDesc& usual, const char* between) {
  if (odd.kind != usual.kind) return "";
  const std::vector<Field> is = fields_of(odd), other = fields_of(usual);
  std::string text;
  for (size_t i = 0; i < is.size(); ++i) {
    if (is[i].value == other[i].value) continue;
    text += fmt::format("{}{} is {}{}{}", text.empty() ? ": " : "; ", is[i].name, is[i].value,
                        between, other[i].value);
  }
  if (!text.empty()) return text;
  return ": their plans for it differ, so these are different builds of libsk, or it was made for "
         "different targets";
}

}  // namespace

std::string name_ranks(const std::vector<uint32_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  const size_t named = std::min(ranks.size(), kRanksNamed);
  for (size_t i = 0; i < named; ++i) {
    const bool last = i > 0 && i + 1 == ranks.size();
    text += fmt::format("{} {}", i == 0 ? "" : last ? " and" : ",", ranks[i]);
  }
  if (ranks.size() > named) text += fmt::format(" and {} more", ranks.size() - named);
  return text;
}

std::string explain_mismatch(std::vector<RankCall> calls) {
  const std::vector<Group> groups = group(std::move(calls));
  if (groups.size() < 2) return "all ranks called the same";
  const Group& usual = groups[0];
  if (groups.size() == 2 && usual.ranks.size() == groups[1].ranks.size()) {
    return fmt::format("{} called {} while {} called {}{}", name_ranks(usual.ranks),
                       describe(usual.op), name_ranks(groups[1].ranks), describe(groups[1].op),
                       differences(usual.op, groups[1].op, " and "));
  }
  std::string text, how;
  const size_t named = std::min(groups.size() - 1, kGroupsNamed);
  for (size_t i = 1; i <= named; ++i) {
    text += fmt::format("{}{} called {}", i == 1 ? "" : ", ", name_ranks(groups[i].ranks),
                        describe(groups[i].op));
    how = differences(groups[i].op, usual.op, ", not ");
  }
  std::vector<uint32_t> others;
  for (size_t i = 1 + named; i < groups.size(); ++i)
    others.insert(others.end(), groups[i].ranks.begin(), groups[i].ranks.end());
  std::sort(others.begin(), others.end());
  if (!others.empty()) text += fmt::format(", {} something else", name_ranks(others));
  const std::string most = usual.ranks.size() == 1
                               ? name_ranks(usual.ranks)
                               : fmt::format("the other {} ranks", usual.ranks.size());
  // Of several odd calls each says by itself what it is.
  return fmt::format("{} while {} called {}{}", text, most, describe(usual.op),
                     groups.size() == 2 ? how : "");
}

}  // namespace sk
