#include "tests/multi/derived/run_cases.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <map>
#include <mutex>
#include <tuple>

#include "lib/op/ops/memory.h"
#include "tests/multi/derived/given.h"
#include "tests/multi/thread_ranks.h"

namespace sk::derived {
namespace {

constexpr size_t kCasesOfWorld = 200;  // Their memory is there all at once.

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

}  // namespace

uint64_t seed() {
  const char* given = std::getenv("SK_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
}

std::vector<const Schema*> schemas() {
  std::vector<const Schema*> out;
  for (const Schema* each : all_schemas()) {
    if (!is_of_memory(*each)) out.push_back(each);
  }
  return out;
}

std::vector<const Schema*> schemas_between_ranks() {
  std::vector<const Schema*> out = schemas();
  std::erase_if(out, [](const Schema* each) { return each->scope == Scope::kLocal; });
  return out;
}

void run_shapes(const std::vector<Shape>& shapes, Random& random, uint64_t first,
                const std::function<void(const Setting*)>& around) {
  std::map<std::tuple<int, bool, int>, std::vector<const Shape*>> by_setting;
  for (const Shape& shape : shapes) {
    const Setting& is = shape.setting;
    by_setting[{is.ranks, is.put_only, is.workers}].push_back(&shape);
  }
  for (const auto& [key, all] : by_setting) {
    for (size_t at = 0; at < all.size(); at += kCasesOfWorld) {
      std::vector<Case> cases;
      for (size_t i = at; i < std::min(all.size(), at + kCasesOfWorld); ++i)
        cases.push_back(make_case(*all[i], random));
      const Setting& setting = all[0]->setting;
      if (around) around(&setting);
      run_all(setting, cases, first);
      if (around) around(nullptr);
      if (testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace sk::derived
