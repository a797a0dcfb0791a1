// Every operation, as its schema says that it may be called: types, layouts, places, numbers,
// ranks, by load and store or by puts alone, each result held against what the schema says it
// means.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include "lib/op/ops/memory.h"
#include "tests/multi/derived/elements.h"
#include "tests/multi/derived/given.h"
#include "tests/multi/thread_ranks.h"

namespace sk::derived {
namespace {

uint64_t seed() {
  const char* given = std::getenv("SK_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
}

// All of so many random calls, where that is asked for, in place of those that cover all pairs.
size_t whole() {
  const char* given = std::getenv("SK_TEST_DERIVED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 0;
}

std::vector<const Schema*> schemas() {
  std::vector<const Schema*> out;
  for (const Schema* each : all_schemas()) {
    if (!is_of_memory(*each)) out.push_back(each);
  }
  return out;
}

// One call in the way that `way` says; each rank may take another one.
sk_status call(sk_comm* comm, const Schema& schema, Given& given, uint64_t way) {
  const auto id = int32_t(schema.id);
  if (way % 3 != 0) return sk_call(comm, id, given.args(), nullptr);
  sk_op* op = nullptr;
  const std::array<unsigned char, 4096> right = given.bytes();
  if (way % 2 != 0) given.put_other_values();  // They are of a run, not of the handle.
  sk_status status = sk_op_create(comm, id, given.args(), &op);
  given.bytes() = right;
  if (status != SK_OK) return status;
  status = sk_op_run(op, way % 2 != 0 ? given.args() : nullptr, nullptr);
  EXPECT_EQ(sk_op_free(op), SK_OK) << sk_last_error();
  return status;
}

// "" or what is wrong. Twice with the same memory: the second call may be remembered.
std::string run(sk_comm* comm, const Case& c, int rank, Random& random) {
  const OpDesc& op = c.shape.op;
  Given given(comm, c, rank, random);
  if (is_pair(op) && ends_of(op)[0] != uint32_t(rank) && ends_of(op)[1] != uint32_t(rank))
    return "";
  for (int turn = 0; turn < 2; ++turn) {
    given.restore();
    if (call(comm, op.schema(), given, random()) != SK_OK) return sk_last_error();
    const std::string wrong = wrong_in(c, rank, given.memory());
    if (!wrong.empty()) return wrong;
  }
  return "";
}

// Cases of one setting share a world.
void run_all(const Setting& setting, const std::vector<Case>& cases, uint64_t first) {
  std::mutex mutex;
  testing_ops::in_thread_ranks(
      setting.ranks,
      [&](sk_comm* comm, int rank) {
        Random random(first + uint64_t(rank));
        for (const Case& c : cases) {
          const std::string wrong = run(comm, c, rank, random);
          if (wrong.empty()) continue;
          const std::lock_guard lock(mutex);
          ADD_FAILURE() << wrong << "\n  " << text_of(c.shape) << "\n  SK_TEST_SEED=" << first;
          (void)sk_comm_abort(comm, "a result is wrong");
          return;
        }
      },
      [&](sk_comm_config& config) {
        config.flags = setting.put_only ? uint32_t(SK_COMM_PUT_ONLY) : 0;
        config.workers = uint32_t(setting.workers);
      });
}

class Derived : public testing::TestWithParam<const Schema*> {};

TEST_P(Derived, CallsMakeWhatTheSchemaSays) {
  const uint64_t first = seed();
  Random random(first);
  std::vector<Shape> shapes = random_shapes(*GetParam(), whole() != 0 ? whole() : 3000, random);
  ASSERT_FALSE(shapes.empty());
  if (whole() == 0) {
    const std::vector<Shape> more(shapes.end() - ptrdiff_t(std::min<size_t>(100, shapes.size())),
                                  shapes.end());
    shapes = covering_pairs(std::move(shapes));
    shapes.insert(shapes.end(), more.begin(), more.end());
  }
  std::map<std::tuple<int, bool, int>, std::vector<Case>> by_setting;
  for (const Shape& shape : shapes) {
    const Setting& setting = shape.setting;
    by_setting[{setting.ranks, setting.put_only, setting.workers}].push_back(
        make_case(shape, random));
  }
  RecordProperty("cases", int(shapes.size()));
  std::printf("%zu calls in %zu worlds\n", shapes.size(), by_setting.size());
  for (const auto& [key, cases] : by_setting) run_all(cases[0].shape.setting, cases, first);
}

// As the call would leave it, or nearly so.
RankMemory right(const Case& c, int64_t rank) {
  const OpDesc& op = c.shape.op;
  RankMemory made = c.before[size_t(rank)];
  for (uint32_t i = 0; i < op.schema().operands.size(); ++i) {
    if (op.schema().operands[i].role != Role::kOut || !has(c.shape, i, rank)) continue;
    put_results(c, i, rank, made);
  }
  return made;
}

// The test itself: any bit of any byte of a call's memory, one at a time.
TEST_P(Derived, WhatIsWrongIsSeen) {
  Random random(seed());
  size_t looked = 0;
  for (const Shape& shape : covering_pairs(random_shapes(*GetParam(), 500, random))) {
    const Case c = make_case(shape, random);
    const int64_t rank = int64_t(random() % uint64_t(shape.setting.ranks));
    const RankMemory made = right(c, rank);
    ASSERT_EQ(wrong_in(c, rank, made), "") << text_of(shape);
    for (size_t i = 0; i < made.operands.size(); ++i) {
      if (made.operands[i].bytes.empty()) continue;
      RankMemory wrong = made;
      // The highest bit of a number's highest byte is its sign, which is seen of all but zero.
      const size_t element = dtype_bytes(shape.op.type(uint32_t(i)));
      const size_t bytes = made.operands[i].bytes.size() - made.operands[i].offset;
      const size_t at = made.operands[i].offset + random() % (bytes / element) * element;
      std::byte& byte = wrong.operands[i].bytes[at + element - 1];
      if (get(shape.op.type(uint32_t(i)), &wrong.operands[i].bytes[at]) == 0) continue;
      byte ^= std::byte(0x80);
      EXPECT_NE(wrong_in(c, rank, wrong), "") << text_of(shape);
      ++looked;
    }
  }
  EXPECT_TRUE(looked > 3 || GetParam()->operands.empty());
}

INSTANTIATE_TEST_SUITE_P(All, Derived, testing::ValuesIn(schemas()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace sk::derived
