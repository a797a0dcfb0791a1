#include "lib/op/mismatch.h"

#include <algorithm>

#include "lib/op/schema.h"
#include "lib/op/values.h"

namespace sk {
namespace {

constexpr size_t kRanksNamed = 8, kGroupsNamed = 3;
constexpr std::string_view kMore = "\n...";

struct Group {
  std::vector<uint32_t> ranks;
  uint64_t fingerprint;
  std::string text;
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
      groups.push_back({{call.rank}, call.fingerprint, call.text});
    }
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Group& a, const Group& b) { return a.ranks.size() > b.ranks.size(); });
  return groups;
}

std::string yes(bool value) { return value ? "true" : "false"; }

// "name\tvalue" of all that callers know: types, dimensions, attributes, storage, strides, place.
// The same names in the same order for all calls of one operation.
void append_fields(std::string& text, const OpDesc& op) {
  const Schema& schema = op.schema();
  const auto field = [&](std::string_view name, std::string_view value) {
    text += fmt::format("\n{}\t{}", name, value);
  };
  for (uint32_t i = 0; i < schema.operands.size(); ++i) {
    const OperandSchema& operand = schema.operands[i];
    if (operand.optional) field(fmt::format("{} given", operand.name), yes(!op.absent(i)));
    if (schema.operand(operand.types) != nullptr) continue;  // It has another one's.
    field(i == 0 ? "dtype" : fmt::format("dtype of {}", operand.name), dtype_name(op.type(i)));
  }
  for (size_t i = 0; i < schema.dimensions.size(); ++i) {
    field(schema.dimensions[i].name, fmt::to_string(op[schema.dimension_field(i)]));
  }
  for (size_t i = 0; i < schema.attributes.size(); ++i) {
    const Attribute& attribute = schema.attributes[i];
    if (attribute.runtime) continue;
    field(attribute.spoken(), value_text(attribute, op[schema.attribute_field(i)]));
  }
  for (uint32_t i = 0; i < schema.operands.size(); ++i) {
    const OperandSchema& operand = schema.operands[i];
    if (operand.may_be(Storage::kPackedB)) {
      field(fmt::format("{} packed before", operand.name), yes(op.storage(i) == Storage::kPackedB));
    }
    if (const Field stride = schema.stride_field(i)) {
      field(fmt::format("stride of {}", operand.name), fmt::to_string(op[stride]));
    }
  }
  for (uint32_t i = 0; i < schema.operands.size(); ++i) {
    if (schema.operands[i].alias[0] != '\0') field("in place", yes(op.aliased(i)));
  }
  for (uint32_t i = 0; i < schema.operands.size(); ++i) {
    if (!schema.operands[i].reached) continue;
    field(fmt::format("{} in symmetric memory", schema.operands[i].name), yes(op.symmetric(i)));
  }
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

// Of two calls' words, "" where they are of different kinds or none differs.
std::string fields(std::string_view odd, std::string_view usual, const char* between) {
  const std::vector<std::string_view> is = lines_of(odd), other = lines_of(usual);
  if (is.empty() || other.empty() || is[0] != other[0]) return "";
  std::string text;
  for (size_t i = 2; i < std::min(is.size(), other.size()); ++i) {
    const size_t name = is[i].find('\t');
    if (is[i] == other[i] || name == is[i].npos) continue;
    if (is[i].substr(0, name + 1) != other[i].substr(0, name + 1)) continue;
    text += fmt::format("{}{} is {}{}{}", text.empty() ? "" : "; ", is[i].substr(0, name),
                        is[i].substr(name + 1), between, other[i].substr(name + 1));
  }
  return text;
}

// What of `odd` is not as in `usual`; "" where the calls are of different kinds.
std::string differences(std::string_view odd, std::string_view usual, const char* between) {
  const std::string_view kind = odd.substr(0, odd.find('\n'));
  if (kind.empty() || kind != usual.substr(0, usual.find('\n'))) return "";
  const std::string text = fields(odd, usual, between);
  if (!text.empty()) return ": " + text;
  if (odd.ends_with(kMore) || usual.ends_with(kMore))
    return ": they differ in what is too long to be told";
  return ": it is the same call, by plans that differ. A plan from a text runs beside equal ones "
         "alone, be they from a text or libsk's own; where nobody has one from a text, these are "
         "different builds of libsk";
}

}  // namespace

std::string fields_that_differ(const OpDesc& is, const OpDesc& other) {
  return fields(call_text(is), call_text(other), ", not ");
}

std::string call_text(const OpDesc& op) {
  std::string text = fmt::format("{}\n{}", op.schema().name, describe(op));
  append_fields(text, op);
  return cut_call_text(std::move(text));
}

std::string cut_call_text(std::string text) {
  if (text.size() <= kCallTextMax) return text;
  text.resize(kCallTextMax - kMore.size());
  text.resize(std::min(text.size(), text.rfind('\n')));
  return text.append(kMore);
}

std::string described(const std::string& text) {
  const std::vector<std::string_view> lines = lines_of(text);
  return lines.size() < 2 ? "something else" : std::string(lines[1]);
}

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
                       described(usual.text), name_ranks(groups[1].ranks),
                       described(groups[1].text), differences(usual.text, groups[1].text, " and "));
  }
  std::string text, how;
  const size_t named = std::min(groups.size() - 1, kGroupsNamed);
  for (size_t i = 1; i <= named; ++i) {
    text += fmt::format("{}{} called {}", i == 1 ? "" : ", ", name_ranks(groups[i].ranks),
                        described(groups[i].text));
    how = differences(groups[i].text, usual.text, ", not ");
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
  return fmt::format("{} while {} called {}{}", text, most, described(usual.text),
                     groups.size() == 2 ? how : "");
}

}  // namespace sk
