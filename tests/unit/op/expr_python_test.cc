// What C++ makes of expressions is what Python makes of them: read_as_python.py runs beside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "lib/op/expr.h"
#include "lib/op/ops/all.h"
#include "lib/op/scope.h"
#include "tests/unit/op/drawn_text.h"

namespace sk {
namespace {

using testing::HasSubstr;

std::string printed_by(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "no process can be started";
  std::string printed;
  for (int byte = std::fgetc(pipe); byte != EOF; byte = std::fgetc(pipe)) {
    printed.push_back(char(byte));
  }
  const int status = pclose(pipe);
  return status == 0 ? printed : printed + "ended with " + std::to_string(status);
}

// Texts with what C++ made of them, for the one who reads them again.
class Readings {
 public:
  Readings() {
    const int file = mkstemp(path_.data());
    EXPECT_GE(file, 0) << path_;
    close(file);
    lines_.open(path_);
  }
  ~Readings() { std::remove(path_.c_str()); }

  void names() { lines_ << "names"; }
  void number(const std::string& name, int64_t value) { lines_ << '\t' << name << '=' << value; }
  void operand(const std::string& name, bool is_float) {
    lines_ << '\t' << name << (is_float ? ":float" : ":other");
  }
  void texts() { lines_ << '\n'; }
  void add(std::string_view text, const ExprValue& made) {
    static constexpr const char* kErrors[] = {"", "syntax", "name", "overflow", "division"};
    lines_ << (made.ok() ? "value\t" + std::to_string(made.value)
                         : std::string("error\t") + kErrors[size_t(made.error)])
           << '\t' << text << '\n';
    ++count_;
  }
  size_t count() const { return count_; }

  std::string reread() {
    lines_.close();
    // As ./dev finds it.
    return printed_by(
        "p=/usr/bin/python3; [ -x $p ] || p=python3; exec $p -IBWignore '" SK_SOURCE_DIR
        "/tests/unit/op/read_as_python.py' '" +
        path_ + "' 2>&1");
  }
  void expect_alike() {
    EXPECT_EQ(reread(), std::to_string(count_) + " texts, 0 read otherwise\n");
  }

 private:
  std::string path_ = testing::TempDir() + "sk_readings_XXXXXX";
  std::ofstream lines_;
  size_t count_ = 0;
};

void add_drawn_names(Readings& readings) {
  readings.names();
  for (const auto& [name, value] : kScope.names) readings.number(name, value);
  for (const auto& [name, is_float] : kScope.operands) readings.operand(name, is_float);
  readings.texts();
}

TEST(ExprInPython, TreesAreAlike) {
  const uint64_t seed = drawn_seed();
  SCOPED_TRACE("SK_SEED=" + std::to_string(seed));
  Draw draw(seed);
  Readings readings;
  add_drawn_names(readings);
  for (int i = 0; i < 8'000; ++i) {
    const std::string text = draw.tree(i % 6).text;
    readings.add(text, evaluate(text, kScope));
  }
  readings.expect_alike();
}

// Neither reads what the other refuses.
TEST(ExprInPython, AnyTextIsReadOrRefusedByBoth) {
  const uint64_t seed = drawn_seed();
  SCOPED_TRACE("SK_SEED=" + std::to_string(seed));
  Draw draw(seed);
  Readings readings;
  add_drawn_names(readings);
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = draw.any_text();
    const ExprValue value = evaluate(text, kScope);
    EXPECT_LE(value.at, text.size()) << text;
    EXPECT_EQ(is_expression(text), value.error != ExprError::kSyntax) << text;
    readings.add(text, value);
    refused += value.error == ExprError::kSyntax;
  }
  for (const size_t depth : {1, 31, 32, 33, 40}) {
    const std::string text = std::string(depth, '(') + "m" + std::string(depth, ')');
    readings.add(text, evaluate(text, kScope));
  }
  readings.expect_alike();
  EXPECT_GT(refused, 4'000);
  EXPECT_LT(refused, 16'000);
}

std::string in_expressions(const std::string& name) {
  return expr::is_keyword(name) ? name + "_" : name;
}

void add_names(Readings& readings, const Schema& schema, const OpDesc& op, int64_t world,
               int64_t rank) {
  readings.names();
  readings.number("world", world);
  readings.number("rank", rank);
  for (const Dimension& each : schema.dimensions) {
    readings.number(in_expressions(each.name), op[schema.field(each.name)]);
  }
  for (const Attribute& each : schema.attributes) {
    readings.number(in_expressions(each.name), op[schema.field(each.name)]);
    if (each.kind != AttributeKind::kRedOp) continue;
    for (int32_t value = SK_SUM; value <= SK_AVG; ++value) {
      readings.number(std::string(each.name) + "_" + redop_name(RedOp(value)), value);
    }
  }
  for (uint32_t i = 0; i < schema.operands.size(); ++i) {
    readings.operand(in_expressions(schema.operands[i].name), is_float(op.type(i)));
  }
  readings.texts();
}

OpDesc any_description(const Schema& schema, std::mt19937_64& random) {
  OpDesc op(schema);
  for (uint32_t i = 0; i < schema.operands.size(); ++i) {
    op.set(OpDesc::type_field(i), int64_t(SK_F32 + random() % (SK_I64 - SK_F32 + 1)));
    if (const Field stride = schema.stride_field(i)) op.set(stride, int64_t(random() >> 1));
  }
  for (const Dimension& each : schema.dimensions) {
    op.set(schema.field(each.name), int64_t(random() >> (random() % 64)));
  }
  for (const Attribute& each : schema.attributes) {
    const int64_t value = each.kind == AttributeKind::kRank ? int64_t(random() % 3) - 1
                          : each.kind == AttributeKind::kBool
                              ? int64_t(random() % 2)
                              : int64_t(SK_SUM + random() % (SK_AVG - SK_SUM + 1));
    op.set(schema.field(each.name), value);
  }
  return op;
}

TEST(ExprInPython, SchemasAreAlike) {
  const uint64_t seed = drawn_seed();
  SCOPED_TRACE("SK_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  Readings readings;
  for (const Schema* schema : all_schemas()) {
    for (int i = 0; i < 100; ++i) {
      const OpDesc op = any_description(*schema, random);
      const int64_t world = 1 + int64_t(random() % 64), rank = int64_t(random() % world);
      const OpScope scope(op, world, rank);
      add_names(readings, *schema, op, world, rank);
      const auto add = [&](std::string_view text) { readings.add(text, evaluate(text, scope)); };
      for (const OperandSchema& operand : schema->operands) {
        for_each_axis(operand.shape, add);
        add(operand.alias_at);
      }
      for (const Condition& condition : schema->conditions) add(condition.holds);
    }
  }
  EXPECT_GT(readings.count(), 2'000u);
  readings.expect_alike();
}

TEST(ExprInPython, ADifferenceIsSeen) {
  Readings readings;
  add_drawn_names(readings);
  readings.add("(m or 1) * 2", {.value = 2});
  readings.add("max(m)", {.value = 7});
  readings.add("m // zero", {.value = 0});
  readings.add("m + 1", {.error = ExprError::kSyntax});
  readings.add("m + x", {.value = 8});
  readings.add("is_float(m)", {.value = 0});
  readings.add("huge + 1", {.value = INT64_MIN});
  readings.add("huge + 1 - 1", {.value = INT64_MAX});
  readings.add("m + 0", {.value = 7});
  const std::string printed = readings.reread();
  for (const char* part : {"'(m or 1) * 2': value 2 in C++, value 14 in Python",
                           "'max(m)': value 7 in C++, error syntax in Python",
                           "'m // zero': value 0 in C++, error division in Python",
                           "'m + 1': error syntax in C++, value 8 in Python",
                           "'m + x': value 8 in C++, error name in Python",
                           "'is_float(m)': value 0 in C++, error name in Python",
                           "'huge + 1': value -9223372036854775808 in C++, error overflow",
                           "'huge + 1 - 1': value 9223372036854775807 in C++, error overflow",
                           "9 texts, 8 read otherwise"}) {
    EXPECT_THAT(printed, HasSubstr(part));
  }
}

}  // namespace
}  // namespace sk
