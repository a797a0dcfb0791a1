#include "lib/op/mismatch.h"

#include <algorithm>

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
  const char* name;
  std::string value;
};

std::string yes(bool value) { return value ? "true" : "false"; }

std::vector<Field> gemm_fields(const OpDesc& op) {
  return {{"dtype", dtype_name(op.dtype)},
          {"dtype of c", dtype_name(op.out_dtype)},
          {"m", fmt::to_string(op.m)},
          {"n", fmt::to_string(op.n)},
          {"k", fmt::to_string(op.k)},
          {"transpose_a", yes(op.transpose_a)},
          {"b packed before", yes(!op.pack_b)},
          {"transpose_b", yes(op.transpose_b)},
          {"stride of a", fmt::to_string(op.lda)},
          {"stride of b", fmt::to_string(op.ldb)},
          {"stride of c", fmt::to_string(op.ldc)},
          {"a in symmetric memory", yes(op.symmetric_in)},
          {"c in symmetric memory", yes(op.symmetric_out)}};
}

// The same fields in the same order for all descriptors of one kind.
std::vector<Field> fields_of(const OpDesc& op) {
  if (op.kind == OpKind::kAllreduceGemm) return gemm_fields(op);
  if (op.kind >= OpKind::kAlloc) return {{"bytes", fmt::to_string(op.count)}};
  std::vector<Field> fields = {{"dtype", dtype_name(op.dtype)},
                               {"op", redop_name(op.redop)},
                               {"count", fmt::to_string(op.count)}};
  const bool pair = op.kind == OpKind::kSendRecv;
  fields.push_back({pair ? "sender" : "root", fmt::to_string(op.root)});
  fields.push_back({"receiver", fmt::to_string(op.peer)});
  fields.push_back({"in place", yes(op.in_place)});
  fields.push_back({"in in symmetric memory", yes(op.symmetric_in)});
  fields.push_back({"out in symmetric memory", yes(op.symmetric_out)});
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
