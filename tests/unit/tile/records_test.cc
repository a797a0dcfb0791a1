// Every record of a tile operation by itself: what it says of itself holds together, and one that
// does not is told apart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "lib/tile/all.h"
#include "lib/tile/signature_effect.h"
#include "lib/tile/well_formed.h"

namespace sk {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class EachTileOp : public testing::TestWithParam<const TileOp*> {};
INSTANTIATE_TEST_SUITE_P(TileOps, EachTileOp,
                         testing::ValuesIn(all_tile_ops().begin(), all_tile_ops().end()),
                         [](const auto& info) { return std::string(info.param->signature.name); });

TEST(TileOps, NumbersAndNamesAreTheirOwn) {
  std::set<TaskOp> numbers;
  std::set<std::string> names;
  for (const TileOp* tile : all_tile_ops()) {
    EXPECT_TRUE(numbers.insert(tile->id).second) << tile->signature.name;
    EXPECT_TRUE(names.insert(tile->signature.name).second) << tile->signature.name;
    EXPECT_EQ(tile_op(tile->id), tile);
  }
  EXPECT_EQ(numbers.size(), kTaskOpCount - 4);
}

// What the compiler does not see, since it takes memory: a typing error in a form's steps, say.
TEST_P(EachTileOp, SaysWhatItDoes) {
  const SignatureEffect effect(GetParam()->signature);
  EXPECT_EQ(effect.tile().flaw(), "");
}

TEST(TileOps, AStepThatReadsNoRegionIsAFlaw) {
  for (const TileOp* tile : all_tile_ops()) {
    std::vector<Form> forms(tile->signature.forms.begin(), tile->signature.forms.end());
    std::string steps = forms.back().steps;
    const std::string region = forms.back().regions.front().name;
    const size_t at = steps.rfind(region);
    ASSERT_NE(at, std::string::npos) << tile->signature.name;
    steps.replace(at, region.size(), "nobody");
    forms.back().steps = steps.c_str();
    Signature signature = tile->signature;
    signature.forms = forms;
    EXPECT_NE(SignatureEffect(signature).tile().flaw(), "") << tile->signature.name;
  }
}

TEST(TileOps, WhatExecutorsRunThemselvesIsNone) {
  for (const TaskOp kind : {TaskOp::kNop, TaskOp::kEnter, TaskOp::kAwait, TaskOp::kPut}) {
    EXPECT_EQ(tile_op(kind), nullptr) << int(kind);
  }
  for (uint32_t number = kTaskOpCount; number <= UINT16_MAX; ++number) {
    ASSERT_EQ(tile_op(TaskOp(number)), nullptr) << number;
  }
}

// A record whose tables may be changed.
struct Draft {
  explicit Draft(const TileOp& of) : tile(of) {
    const Signature& from = of.signature;
    parameters.assign(from.parameters.begin(), from.parameters.end());
    for (const Form& form : from.forms) {
      roles.emplace_back(form.regions.begin(), form.regions.end());
      steps.push_back(form.steps);
    }
  }
  std::string flaw() {
    std::vector<Form> forms;
    for (size_t i = 0; i < roles.size(); ++i)
      forms.push_back({roles[i], i < steps.size() ? steps[i] : steps[0]});
    tile.signature.parameters = parameters;
    tile.signature.forms = forms;
    return flaw_in(tile);
  }

  TileOp tile;
  std::vector<Parameter> parameters;
  std::vector<std::vector<RegionRole>> roles;  // By form, as the next.
  std::vector<const char*> steps;
};

struct Flaw {
  const char* sentence;
  std::function<void(Draft&)> plant;
};

const std::vector<Flaw>& flaws() {
  static const std::vector<Flaw> kFlaws = {
      {"no version", [](Draft& d) { d.tile.version = 0; }},
      {"no reference", [](Draft& d) { d.tile.reference = nullptr; }},
      {"no name", [](Draft& d) { d.tile.signature.name = ""; }},
      {"a parameter without a name", [](Draft& d) { d.parameters.back().name = ""; }},
      {"a name twice", [](Draft& d) { d.parameters.push_back(d.parameters.front()); }},
      {"no value suits", [](Draft& d) { d.parameters[0].min = d.parameters[0].max + 1; }},
      {"words that are not one for each value",
       [](Draft& d) {
         d.parameters[0].kind = ParamKind::kWord;
         d.parameters[0].max = d.parameters[0].min + 9;
       }},
      {"forms of no parameter",
       [](Draft& d) { d.tile.signature.form_parameter = uint8_t(d.parameters.size()); }},
      {"forms of a parameter that means nothing",
       [](Draft& d) {
         d.tile.signature.form_parameter = uint8_t(d.parameters.size());
         d.parameters.push_back({"other", ParamKind::kInteger, ParamUse::kHint, 0, 0});
       }},
      {"forms that are not one for each value", [](Draft& d) { d.roles.push_back(d.roles[0]); }},
      {"forms that are not one for each value", [](Draft& d) { d.roles.pop_back(); }},
      {"a region without a name", [](Draft& d) { d.roles.back()[1].name = ""; }},
      {"neither read nor written", [](Draft& d) { d.roles[0][0].access = RegionAccess(3); }},
      {"an entry that no parameter names",
       [](Draft& d) { d.roles[0][0].but_parameter = uint8_t(d.parameters.size()); }},
      {"an entry of a region in one buffer",
       [](Draft& d) {
         d.roles[0][0].many_buffers = false;
         d.roles[0][0].but_parameter = 0;
       }},
      {"nothing that it does", [](Draft& d) { d.steps.back() = ""; }},
      {"two roles that repeat",
       [](Draft& d) { d.roles[0][0].repeats = d.roles[0][1].repeats = true; }},
      {"more regions than tasks have",
       [](Draft& d) {
         d.roles[0][0].repeats = false;
         d.roles[0].resize(kRegionCountMax + 1, d.roles[0][0]);
       }},
  };
  return kFlaws;
}

TEST_P(EachTileOp, IsWellFormedAndAPlantedFlawIsNamed) {
  EXPECT_EQ(Draft(*GetParam()).flaw(), kNoTileFlaw);
  for (const Flaw& flaw : flaws()) {
    Draft draft(*GetParam());
    flaw.plant(draft);
    EXPECT_THAT(draft.flaw(), HasSubstr(flaw.sentence));
  }
}

TEST_P(EachTileOp, HasARoleForEachRegionOfEachForm) {
  for (const Form& form : GetParam()->signature.forms) {
    const uint32_t least = form.region_count_min(), most = form.region_count_max();
    EXPECT_GE(least, GetParam()->signature.region_count_min());
    EXPECT_LE(most, GetParam()->signature.region_count_max());
    for (uint32_t count = 0; count <= kRegionCountMax + 1; ++count) {
      EXPECT_EQ(form.takes(count), count >= least && count <= most) << count;
      for (uint32_t i = 0; i <= count; ++i) {
        const bool is_there = i < count && count >= least && count <= most;
        EXPECT_EQ(form.role(i, count) != nullptr, is_there) << i << " of " << count;
      }
    }
  }
}

std::vector<std::string> roles(const TileOp& tile, std::span<const int64_t> params,
                               uint32_t count) {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < count; ++i) {
    const RegionRole* role = tile.signature.role(params, i, count);
    names.push_back(role == nullptr ? "" : role->name);
  }
  return names;
}

TEST(TileOps, AReductionHasAsManyInputsAsItsTaskHasRoom) {
  const int64_t params[kReduceParamCount] = {};
  EXPECT_THAT(roles(tiles::kReduce, params, 2), ElementsAre("in", "out"));
  EXPECT_THAT(roles(tiles::kReduce, params, 6), ElementsAre("in", "in", "in", "in", "in", "out"));
}

TEST(TileOps, TheRegionsOfAProductFollowItsEpilogue) {
  int64_t params[kGemmParamCount] = {};
  const auto roles_of = [&](int64_t epilogue, uint32_t count) {
    params[kGemmEpilogue] = epilogue;
    return roles(tiles::kGemm, params, count);
  };
  EXPECT_THAT(roles_of(kGemmStore, 3), ElementsAre("a", "b", "c"));
  EXPECT_THAT(roles_of(kGemmPartial, 3), ElementsAre("a", "b", "partial"));
  EXPECT_THAT(roles_of(kGemmReduce, 4), ElementsAre("a", "b", "partials", "c"));
  EXPECT_THAT(roles_of(kGemmReduce, 3), ElementsAre("", "", ""));
  EXPECT_THAT(roles_of(kGemmReduce + 1, 3), ElementsAre("", "", ""));
}

TEST(TileOps, NobodyTouchesThePartialThatIsTheProductItself) {
  int64_t params[kGemmParamCount] = {};
  params[kGemmSelf] = 5;
  params[kGemmEpilogue] = kGemmReduce;
  const Signature& gemm = tiles::kGemm.signature;
  for (uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(gemm.own_entry(params, i, 4), i == 2 ? std::optional<uint64_t>(5) : std::nullopt);
  }
  params[kGemmEpilogue] = kGemmPartial;
  EXPECT_EQ(gemm.own_entry(params, 2, 3), std::nullopt);
}

TEST_P(EachTileOp, WordsAreThoseOfItsValuesAlone) {
  for (const Parameter& parameter : GetParam()->signature.parameters) {
    EXPECT_EQ(parameter.word(parameter.min - 1), "") << parameter.name;
    EXPECT_EQ(parameter.word(parameter.max + 1), "") << parameter.name;
    if (!parameter.has_words()) continue;
    std::set<std::string_view> words;
    for (int64_t value = parameter.min; value <= parameter.max; ++value) {
      EXPECT_NE(parameter.word(value), "") << parameter.name << " " << value;
      EXPECT_TRUE(words.insert(parameter.word(value)).second) << parameter.name << " " << value;
    }
  }
}

}  // namespace
}  // namespace sk
