// Records that would mislead what walks them are refused, each with its sentence.
#include "lib/op/well_formed.h"

#include <gtest/gtest.h>

#include "lib/op/judge.h"

namespace sk {
namespace {

constexpr Dimension kRows[] = {{"m"}, {"k"}};
constexpr OperandSchema kX = {.name = "x", .role = Role::kIn, .types = "any", .shape = "m, k"},
                        kY = {.name = "y", .role = Role::kOut, .types = "x", .shape = "m, k"};
constexpr Attribute kTurned[] = {{"turned", AttributeKind::kBool}, {"root", AttributeKind::kRank}};

constexpr Steps kCopied = steps_of("y@r[i, j] = x@r[i, j]");

struct Draft {
  std::vector<Dimension> dimensions{kRows[0], kRows[1]};
  std::vector<OperandSchema> operands{kX, kY};
  std::vector<Attribute> attributes{kTurned[0], kTurned[1]};
  std::vector<Condition> conditions;
  const char *name = "draft", *brief = "{x.dtype}, {m}, {root}";
  Scope scope = Scope::kAll;
  std::vector<InnerArray> arrays;
  const Steps* meaning = &kCopied;

  std::string_view flaw() const {
    return flaw_in({.id = OpKind(50),
                    .name = name,
                    .brief = brief,
                    .scope = scope,
                    .dimensions = dimensions,
                    .operands = operands,
                    .attributes = attributes,
                    .conditions = conditions,
                    .arrays = arrays,
                    .meaning = meaning});
  }
};

TEST(WellFormed, ADraftIs) {
  EXPECT_EQ(Draft().flaw(), kNoFlaw);
  Draft turned;
  turned.operands[0].storage = Storage::kRows;
  turned.operands[0].turned_by = "turned";
  turned.conditions = {{"m % 2 == 0 or is_float(x)", "even"}};
  EXPECT_EQ(turned.flaw(), kNoFlaw);
}

TEST(WellFormed, AnOperandIsOnTheRankWhereItIsUsed) {
  constexpr Steps kOfRoot = steps_of("y@r[i, j] = x@root[i, j]");
  constexpr char kElsewhere[] = "an operand is on other ranks than the steps that read or make it";
  Draft draft;
  draft.operands[0].only_on = "root";
  EXPECT_EQ(draft.flaw(), kElsewhere);
  draft.meaning = &kOfRoot;
  EXPECT_EQ(draft.flaw(), kNoFlaw);
  draft.operands[0].only_on = "";
  EXPECT_EQ(draft.flaw(), kElsewhere);
}

constexpr char kNoName[] = "a name in it is none, or has another meaning";

TEST(WellFormed, NamesAreNamesAndTheirOwn) {
  for (const char* name : {"", "4d", "a b", "A", "a_", "tab\t"}) {
    Draft named;
    named.name = name;
    EXPECT_EQ(named.flaw(), kNoName) << name;
  }
  for (const char* name : {"", "4d", "a b", "A", "m_", "double", "world", "rank", "max", "cdiv",
                           "end", "is_float", "any", "f32", "x", "k", "root"}) {
    Draft dimension, operand, attribute;
    dimension.dimensions.push_back({name});
    EXPECT_EQ(dimension.flaw(), kNoName) << name;
    operand.operands.push_back(kY);
    operand.operands[2].name = name;
    EXPECT_EQ(operand.flaw(), kNoName) << name;
    attribute.attributes.push_back({name, AttributeKind::kBool});
    EXPECT_EQ(attribute.flaw(), kNoName) << name;
  }
  Draft values;  // "op_avg" is what the attribute "op" may be.
  values.attributes.push_back({"op", AttributeKind::kRedOp});
  EXPECT_EQ(values.flaw(), kNoFlaw);
  values.dimensions.push_back({"op_avg"});
  EXPECT_EQ(values.flaw(), kNoName);
  Draft keyword;  // Python's have an underscore in expressions.
  keyword.dimensions.push_back({"lambda"});
  keyword.conditions = {{"lambda_ < world or is_float(x)", ""}};
  EXPECT_EQ(keyword.flaw(), kNoFlaw);
}

TEST(WellFormed, OperandsSayWhatThereIs) {
  const auto with = [](auto&& change) {
    Draft draft;
    change(draft.operands[1]);
    return draft.flaw();
  };
  for (const char* types : {"", "y", "z", "f33", "any|", "x|q"}) {
    EXPECT_EQ(
        with([&](OperandSchema& y) { y.types = types; }),
        std::string_view(types) == "any|" ? kNoFlaw : "an operand's types name none that there is")
        << types;
  }
  for (const char* shape : {"", "m, k, m"}) {
    EXPECT_EQ(with([&](OperandSchema& y) { y.shape = shape; }),
              "an operand has neither one axis nor two")
        << shape;
  }
  for (const char* shape : {"m, q", "m,", "m +, k", "rank * m"}) {
    EXPECT_EQ(with([&](OperandSchema& y) { y.shape = shape; }), "an operand's shape cannot be read")
        << shape;
  }
  EXPECT_EQ(with([](OperandSchema& y) {
              y.shape = "m";
              y.storage = Storage::kRows;
            }),
            "a vector is stored element after element");
  EXPECT_EQ(with([](OperandSchema& y) { y.turned_by = "root"; }),
            "an operand is turned by no boolean of the schema, or has no two axes");
  EXPECT_EQ(with([](OperandSchema& y) { y.only_on = "turned"; }),
            "an operand is only on a rank that no attribute names");
  for (const char* alias : {"y", "z"}) {
    EXPECT_EQ(with([&](OperandSchema& y) { y.alias = alias; }),
              "in place an operand is part of none that has its own memory")
        << alias;
  }
}

TEST(WellFormed, ValuesOfRunsAreOfNoCallBetweenRanks) {
  Draft of_ranks;
  of_ranks.attributes.push_back({.name = "lr", .kind = AttributeKind::kFloat, .runtime = true});
  EXPECT_EQ(of_ranks.flaw(),
            "a runtime value is no number, or other ranks would have to agree on it");
}

TEST(WellFormed, TheRestSaysWhatThereIs) {
  Draft draft;
  draft.conditions = {{"m == q", "q"}};
  EXPECT_EQ(draft.flaw(), "a condition cannot be read");
  draft.conditions = {{"rank == 0", "first"}};  // Judged for all ranks at once.
  EXPECT_EQ(draft.flaw(), "a condition cannot be read");
  draft = Draft();
  draft.brief = "{q}";
  EXPECT_EQ(draft.flaw(), "its brief names what is not there");
  draft.brief = "{m";
  EXPECT_EQ(draft.flaw(), "its brief names what is not there");
  draft = Draft();
  draft.scope = Scope::kPair;
  EXPECT_EQ(draft.flaw(), "a pair's first two attributes name its ranks");
  draft = Draft();
  draft.operands[0].types = "y";  // Each as the other.
  EXPECT_EQ(draft.flaw(), "an operand's types name none that there is");
  draft = Draft();
  draft.attributes[1].label = "the\troot";
  EXPECT_EQ(draft.flaw(), "a label in it is no text of one line");
  draft = Draft();
  draft.attributes.resize(67, kTurned[0]);
  EXPECT_EQ(draft.flaw(), "it has too many booleans");
  draft = Draft();
  draft.operands.resize(9, kX);
  EXPECT_EQ(draft.flaw(), "it has too many operands");
  draft = Draft();
  draft.dimensions.resize(38, kRows[0]);
  EXPECT_EQ(draft.flaw(), "it has too many words");
}

// A meaning that a judge could not rely on.
TEST(WellFormed, MeaningsDefineEveryOutputOnce) {
  const auto flaw = [](std::string_view text, const std::vector<InnerArray>& arrays = {}) {
    Draft draft;
    Steps steps;
    EXPECT_TRUE(read_steps(text, &steps)) << text;
    draft.meaning = &steps;
    draft.arrays = arrays;
    return draft.flaw();
  };
  Draft mute;
  mute.meaning = nullptr;
  EXPECT_EQ(mute.flaw(), "an output is defined by no step or by several, or an input by any");
  const std::pair<const char*, const char*> kFlaws[] = {
      {"x@r[i, j] = y@r[i, j]",
       "an output is defined by no step or by several, or an input by any"},
      {"y@r[i, j] = x@r[i, j]; y@r[i, j] = x@r[i, j]",
       "an output is defined by no step or by several, or an input by any"},
      {"y[i, j] = x@r[i, j]", "a step's output cannot be read"},
      {"y@r[i] = x@r[i, i]", "a step's output cannot be read"},
      {"y@r[i, j] = z@r[i, j]", "a step's input cannot be read"},
      {"y@r[i, j] = x@r[j, i]", "a step's input cannot be read"},
      {"y@r[i, j] = x@r[i + h, j]", "a step's input has an index that cannot be read"},
      {"y@r[i + 1, j] = x@r[i, j]", "a place of an output does not give its iterators back"},
      {"y@r[r * m + i, j] = x@r[i, j]", "a place of an output does not give its iterators back"},
      {"y@r[i, j] = f(x@r[i + 1, j])", "a function's indices are no iterators alone"},
      {"y@q[i, j] = sun(r) x@r[i, j]", "nothing joins as a step says"},
      {"y@q[i, j] = root(r) x@r[i, j]", "nothing joins as a step says"},
      {"y@q[i, j] = sum(h) x@r[i, j]", "a step joins over no iterator"},
      {"y@q[i, j] = sum(r) x@q[i, j]", "a step joins over no iterator"},
      {"y@r[i, j] = sum(j) x@r[i, j]", "a step joins other things than ranks' elements"},
      {"y@r[i, j] = sum(j) f(x@r[i, j])", "a function's sum is cut"},
      {"y@r[i, j] = f[h](x@r[i, j])", "a function is inside of no iterator"},
      {"y@r[i, j] = f(x@r[i, j], by = h)", "a binding cannot be read"}};
  for (const auto& [text, sentence] : kFlaws) EXPECT_EQ(flaw(text), sentence) << text;
  const std::vector<InnerArray> arrays{{"part", "accumulator(x)", "m, k"}};
  EXPECT_EQ(flaw("part@r[i, j] = f(x@r[i, j]); y@q[i, j] = sum(r) part@r[i, j]", arrays), kNoFlaw);
  EXPECT_EQ(flaw("y@q[i, j] = sum(r) part@r[i, j]; part@r[i, j] = f(x@r[i, j])", arrays),
            "a step reads what no step before it defines");
  EXPECT_EQ(flaw("part@r[i, j] = x@r[i, j]; y@q[i, j] = sum(r) part@r[i, j]", arrays),
            "a step joins what is only moved");
  EXPECT_EQ(flaw("part@r[i, j] = f(x@r[i, j]); y@r[i, j] = f(x@r[i, j])", arrays),
            "two steps are alike");
  EXPECT_EQ(flaw("y@r[i, j] = x@r[i, j]", arrays), "an array is defined by no step or by several");
  EXPECT_EQ(flaw("part@r[i, j] = f(x@r[i, j]); y@r[i, j] = part@r[i, j]",
                 {{"part", "accumulator(z)", "m, k"}}),
            "an array's type names none that there is");
}

// What is summed in blocks is cut as the array's shape says, and only an uncut sum is.
TEST(WellFormed, SumsInBlocksFillTheirArray) {
  const auto flaw = [](std::string_view text, const char* shape) {
    Draft draft;
    Steps steps;
    EXPECT_TRUE(read_steps(text, &steps)) << text;
    draft.meaning = &steps;
    draft.arrays = {{"part", "accumulator(x)", shape}};
    return draft.flaw();
  };
  const std::string copied = "; y@r[i, j] = x@r[i, j]";
  EXPECT_EQ(flaw("part@r[i // 8, j] = sum(i uncut) f(x@r[i, j])" + copied, "cdiv(m, 8), k"),
            kNoFlaw);
  EXPECT_EQ(flaw("part@r[j // 8, i] = sum(j uncut) x@r[i, j]" + copied, "cdiv(k, 8), m"), kNoFlaw);
  constexpr char kNone[] = "a function's indices are no iterators alone";
  const std::pair<const char*, const char*> kFlaws[] = {
      {"part@r[i // 8, j] = sum(i uncut) f(x@r[i, j])", "cdiv(m, 4), k"},
      {"part@r[i // 8, j] = sum(i uncut) f(x@r[i, j])", "m // 8, k"},
      {"part@r[i // 8, j] = sum(i uncut) f(x@r[i, j])", "cdiv(k, 8), k"},
      {"part@r[i // 8, j] = sum(j uncut) f(x@r[i, j])", "cdiv(m, 8), k"},
      {"part@r[i // 0, j] = sum(i uncut) f(x@r[i, j])", "cdiv(m, 0), k"},
      {"part@r[i // m, j] = sum(i uncut) f(x@r[i, j])", "cdiv(m, m), k"},
      {"part@r[i // 8, j] = f(x@r[i, j])", "cdiv(m, 8), k"},
      {"part@r[i, j] = f(x@r[i // 8, j])", "m, k"}};
  for (const auto& [text, shape] : kFlaws) EXPECT_EQ(flaw(text + copied, shape), kNone) << text;
  EXPECT_EQ(flaw("part@r[i // 8, j] = x@r[i, j]" + copied, "cdiv(m, 8), k"),
            "a place of an output does not give its iterators back");
}

// A judge asks for parts of outputs and computes where they are read: that must be where they are.
TEST(WellFormed, WhatIsReadLiesWhereItsIteratorsSay) {
  const auto flaw = [](std::string_view text, const char* x, const char* y) {
    Draft draft;
    draft.operands[0].shape = x;
    draft.operands[1].shape = y;
    if (text.find("x@root") != text.npos) draft.operands[0].only_on = "root";
    Steps steps;
    EXPECT_TRUE(read_steps(text, &steps)) << text;
    draft.meaning = &steps;
    return draft.flaw();
  };
  EXPECT_EQ(flaw("y@q[i] = sum(r) x@r[q * m + i]", "world * m", "m"), kNoFlaw);
  EXPECT_EQ(flaw("y@q[i] = x@root[i]", "m", "m"), kNoFlaw);
  constexpr char kNoPlace[] =
      "an index of what a step moves is neither an iterator nor mixed radix";
  constexpr char kUnbound[] = "a step's input has an iterator that nothing binds";
  const struct {
    const char *text, *x, *y, *sentence;
  } kFlaws[] = {
      {"y@r[i] = x@r[i % 2]", "m", "m", kNoPlace},
      {"y@r[i] = x@r[0]", "m", "m", kNoPlace},
      {"y@r[i] = x@r[m - 1 - i]", "m", "m", kNoPlace},
      {"y@r[i] = x@r[i * 2]", "2 * m", "m", kNoPlace},
      {"y@r[i] = x@r[r * k + i]", "world * m", "m", kNoPlace},
      {"y@r[i] = x@q[i]", "m", "m", kUnbound},
      {"y@r[i, j] = x@r[i, h]", "m, k", "m, k", kUnbound},
      {"y@r[i, j] = f(x@r[h, j])", "m, k", "m, k", kUnbound},
      {"y@r[i, j] = f(x@q[i, j])", "m, k", "m, k", kUnbound},
      {"y@r[i, j] = x@r[j, i]", "m, m", "m, m", "a step moves along another axis than it reads"},
      {"y@r[i, j] = x@r[i, i]", "m, m", "m, m", "a step moves along another axis than it reads"},
      {"y@r[i, j] = x@r[j]", "k", "m, k", "a move has not as many axes as its input"},
      {"y@q[i] = sum(r) x@r[r * m + i]", "world * m", "m",
       "a step joins elements of several places"}};
  for (const auto& each : kFlaws) {
    EXPECT_EQ(flaw(each.text, each.x, each.y), each.sentence) << each.text;
  }
}

TEST(WellFormed, ArraysBetweenStepsHaveAShape) {
  const auto draft_of = [](const char* shape) {
    static constexpr Steps kTwice =
        steps_of("part@r[i, j] = f(x@r[i, j]); y@r[i, j] = g(part@r[i, j])");
    Draft draft;
    draft.meaning = &kTwice;
    draft.arrays = {{"part", "x", shape}};
    return draft;
  };
  EXPECT_EQ(draft_of("m, k").flaw(), kNoFlaw);
  EXPECT_EQ(draft_of("").flaw(), "an array has neither one axis nor two");
  EXPECT_EQ(draft_of("m, k, m").flaw(), "an array has neither one axis nor two");
  EXPECT_EQ(draft_of("m, q").flaw(), "an array's shape cannot be read");
  EXPECT_EQ(draft_of("m, k +").flaw(), "an array's shape cannot be read");
  EXPECT_EQ(draft_of("m, rank").flaw(), "an array's shape cannot be read");
}

// Where it cannot be computed the call is refused, and no judge takes it for 0.
TEST(WellFormed, AnArrayOfNoSizeIsNamed) {
  static constexpr Steps kSummed =
      steps_of("part@r[i // 8, j] = sum(i uncut) x@r[i, j]; y@r[i, j] = x@r[i, j]");
  const auto mistake = [](const char* shape, int64_t m) {
    const InnerArray arrays[] = {{"part", "x", shape}};
    const OperandSchema operands[] = {kX, kY};
    const Schema schema{.id = OpKind(50),
                        .name = "draft",
                        .brief = "{m}",
                        .dimensions = kRows,
                        .operands = operands,
                        .arrays = arrays,
                        .meaning = &kSummed};
    OpDesc op(schema);
    op.set(schema.field("m"), m);
    op.set(schema.field("k"), 3);
    return mistake_in(op, 1);
  };
  EXPECT_EQ(mistake("cdiv(m, 8), k", 9), "");
  EXPECT_EQ(mistake("cdiv(m, m), k", 0),
            "draft(0): the shape of part, \"cdiv(m, m), k\", divides by 0");
  EXPECT_EQ(mistake("m - 1, k", 0), "draft(0): the shape of part, \"m - 1, k\", is negative");
  EXPECT_EQ(
      mistake("m * m * m * m * m, k", int64_t(1) << 40),
      "draft(1099511627776): the shape of part, \"m * m * m * m * m, k\", goes beyond 64 bits");
}

}  // namespace
}  // namespace sk
