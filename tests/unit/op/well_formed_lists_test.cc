// Lists of tensors and values of runs in records: what would mislead who walks them is refused.
#include <gtest/gtest.h>

#include "lib/op/well_formed.h"

namespace sk {
namespace {

// Lists, what is only in place, and values of runs: of each rank alone, over one free dimension.
constexpr Steps kNew = steps_of("new_x@r[i] = f(x@r[i], by = lr)");
struct ListDraft {
  std::vector<Dimension> dimensions{{"n"}, {"m"}};
  std::vector<OperandSchema> operands{
      {.name = "x", .role = Role::kIn, .types = "any", .shape = "n", .list = true},
      {.name = "new_x",
       .role = Role::kOut,
       .types = "x",
       .shape = "n",
       .alias = "x",
       .list = true,
       .only_in_place = true}};
  std::vector<Attribute> attributes{{.name = "lr", .kind = AttributeKind::kFloat, .runtime = true}};
  Scope scope = Scope::kLocal;
  const char* free = "n";

  std::string_view flaw() const {
    return flaw_in({.id = OpKind(50),
                    .name = "draft",
                    .brief = "{x.dtype}, {n}",
                    .scope = scope,
                    .dimensions = dimensions,
                    .operands = operands,
                    .attributes = attributes,
                    .meaning = &kNew,
                    .free = free});
  }
};

TEST(WellFormed, ListsAreVectorsOfTheFreeDimension) {
  const auto with = [](auto&& change) {
    ListDraft draft;
    change(draft);
    return draft.flaw();
  };
  EXPECT_EQ(with([](ListDraft&) {}), kNoFlaw);
  EXPECT_EQ(with([](ListDraft& d) { d.scope = Scope::kAll; }),
            "a list is of an operation of several ranks");
  for (const char* free : {"", "m"}) {
    EXPECT_EQ(with([&](ListDraft& d) { d.free = free; }),
              "a list is no vector of the free dimension");
  }
  EXPECT_EQ(with([](ListDraft& d) { d.operands[0].optional = true; }),
            "a list may be absent, where it may be empty");
  EXPECT_EQ(with([](ListDraft& d) { d.operands[1].only_in_place = false; }),
            "a list is in place of no list, or only at times");
  EXPECT_EQ(with([](ListDraft& d) { d.operands[0].list = false; }),
            "a list is in place of no list, or only at times");
  EXPECT_EQ(with([](ListDraft& d) { d.operands[1].types = "f32"; }),
            "only in place an output is all of an operand, and as that");
  EXPECT_EQ(with([](ListDraft& d) { d.operands[1].alias = ""; }),
            "only in place there is an output, in the place of an operand that is there");
  EXPECT_EQ(with([](ListDraft& d) {
              d.attributes.push_back({"length", AttributeKind::kInt});
            }),
            "a name in it is none, or has another meaning");
}

TEST(WellFormed, ValuesOfRunsAreNumbersOfOneRank) {
  ListDraft draft;
  draft.attributes[0].kind = AttributeKind::kRedOp;
  EXPECT_EQ(draft.flaw(), "a runtime value is no number, or other ranks would have to agree on it");
  draft = ListDraft();
  for (const char* name : {"a", "b", "c", "d"})
    draft.attributes.push_back({.name = name, .kind = AttributeKind::kInt, .runtime = true});
  EXPECT_EQ(draft.flaw(), "it has too many runtime values");
  draft = ListDraft();
  draft.attributes.push_back({.name = "count", .kind = AttributeKind::kInt, .runtime = true});
  EXPECT_EQ(draft.flaw(), kNoFlaw);
  // A plan is made without them: nothing that is computed for it may ask.
  draft.operands[0].shape = draft.operands[1].shape = "count";
  draft.free = "count";
  EXPECT_EQ(draft.flaw(), "an operand's shape cannot be read");
}

}  // namespace
}  // namespace sk
