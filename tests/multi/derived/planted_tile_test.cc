// A tile's mistakes, planted in its function and in what its record says that it does: results are
// seen to be wrong, and plans are refused whose tiles do something else than the operation means.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <span>

#include "lib/plan/task_info.h"
#include "lib/plan/validate.h"
#include "lib/tile/signature_effect.h"
#include "tests/multi/derived/changed_steps.h"
#include "tests/multi/derived/on_reference.h"
#include "tests/multi/derived/run_cases.h"

namespace sk {

// The linker's --wrap: who asks for a tile or its effect asks these, who find the library's own.
const TileOp* tile_or_planted(TaskOp id) __asm__("__wrap__ZN2sk7tile_opENS_6TaskOpE");
const TileOp* own_tile_op(TaskOp id) __asm__("__real__ZN2sk7tile_opENS_6TaskOpE");
const effect::Tile* effect_or_planted(TaskOp id) __asm__("__wrap__ZN2sk9effect_ofENS_6TaskOpE");
const effect::Tile* own_effect_of(TaskOp id) __asm__("__real__ZN2sk9effect_ofENS_6TaskOpE");

namespace {

const TileOp* planted_tile = nullptr;
const effect::Tile* planted_effect = nullptr;
TaskOp planted_for = TaskOp::kNop;

}  // namespace

const TileOp* tile_or_planted(TaskOp id) {
  return planted_tile != nullptr && id == planted_for ? planted_tile : own_tile_op(id);
}
const effect::Tile* effect_or_planted(TaskOp id) {
  return planted_effect != nullptr && id == planted_for ? planted_effect : own_effect_of(id);
}

namespace derived {
namespace {

constexpr size_t kCalls = 24;

using Bytes = std::vector<std::byte>;

// Rows of a region in one of its buffers.
template <typename Visitor>
void for_each_row(const TileArgs& args, uint32_t region, const Visitor& visit) {
  const Region& is = args.regions[region];
  for (uint32_t buffer = 0; buffer < is.buffer_count; ++buffer) {
    std::byte* const first = args.pointers[region][buffer];
    for (uint32_t row = 0; row < is.rows; ++row)
      visit(std::span(first + row * is.pitch, is.row_bytes));
  }
}
template <typename Visitor>
void for_each_written(const TileArgs& args, const Visitor& visit) {
  for (uint32_t i = 0; i < args.region_count; ++i) {
    if (args.regions[i].access == kWrite) for_each_row(args, i, visit);
  }
}
// What was written is put back as it was, where `is` says so of row and rows.
void leave(const TileArgs& args, TileFn right, bool (*is)(size_t row, size_t rows)) {
  std::vector<Bytes> before;
  for_each_written(args,
                   [&](std::span<std::byte> row) { before.emplace_back(row.begin(), row.end()); });
  right(args);
  size_t at = 0;
  for_each_written(args, [&](std::span<std::byte> row) {
    if (is(at, before.size())) std::ranges::copy(before[at], row.begin());
    ++at;
  });
}

struct FunctionBug {
  const char* name;
  void (*run)(const TileArgs& args, TileFn right, size_t element);
};
const FunctionBug kFunctionBugs[] = {
    {"does nothing", [](const TileArgs& args, TileFn right,
                        size_t) { leave(args, right, [](size_t, size_t) { return true; }); }},
    {"leaves the last row out",
     [](const TileArgs& args, TileFn right, size_t) {
       leave(args, right, [](size_t row, size_t rows) { return row + 1 == rows; });
     }},
    {"leaves the first element out",
     [](const TileArgs& args, TileFn right, size_t element) {
       std::vector<Bytes> before;
       for_each_written(args, [&](std::span<std::byte> row) {
         before.emplace_back(row.begin(), row.begin() + ptrdiff_t(std::min(element, row.size())));
       });
       right(args);
       size_t at = 0;
       for_each_written(
           args, [&](std::span<std::byte> row) { std::ranges::copy(before[at++], row.begin()); });
     }},
    {"writes an element too far",
     [](const TileArgs& args, TileFn right, size_t element) {
       right(args);
       for_each_written(args, [&](std::span<std::byte> row) {
         if (row.size() > element)
           std::rotate(row.begin(), row.begin() + ptrdiff_t(element), row.end());
       });
     }},
    {"writes the first row everywhere",
     [](const TileArgs& args, TileFn right, size_t) {
       right(args);
       Bytes first;
       for_each_written(args, [&](std::span<std::byte> row) {
         if (first.size() != row.size()) first.assign(row.begin(), row.end());
         std::ranges::copy(first, row.begin());
       });
     }},
    {"reads an element too far",
     [](const TileArgs& args, TileFn right, size_t element) {
       // As if what is read began there, with what follows where it ends.
       std::vector<Bytes> before;
       const auto read = [&](const auto& visit) {
         for (uint32_t i = 0; i < args.region_count; ++i) {
           if (args.regions[i].access == kRead && args.regions[i].buffer_count == 1)
             return for_each_row(args, i, visit);
         }
       };
       read([&](std::span<std::byte> row) {
         before.emplace_back(row.begin(), row.end());
         if (row.size() > element)
           std::rotate(row.begin(), row.begin() + ptrdiff_t(element), row.end());
       });
       // In place it must not undo what it has made.
       right(args);
       size_t at = 0;
       read([&](std::span<std::byte> row) {
         Bytes turned = before[at];
         if (turned.size() > element)
           std::rotate(turned.begin(), turned.begin() + ptrdiff_t(element), turned.end());
         if (std::ranges::equal(turned, row)) std::ranges::copy(before[at], row.begin());
         ++at;
       });
     }},
};

const FunctionBug* planted_bug = nullptr;
TileFn right_function = nullptr;
size_t element_bytes = 1;

class PlantedTiles : public testing::TestWithParam<const Schema*> {
 protected:
  void TearDown() override {
    planted_tile = nullptr;
    planted_effect = nullptr;
  }
};

std::set<TaskOp> ops_in(const Plan& plan) {
  std::set<TaskOp> out;
  for (const RankPlan& part : plan.ranks) {
    for (const Task& task : part.tasks) {
      if (moves_bytes(task.op)) out.insert(task.op);
    }
  }
  return out;
}

TEST_P(PlantedTiles, FunctionsAreSeenInResults) {
  const uint64_t first = seed();
  Random random(first);
  Tallies tallies;
  for (const Planned& each : planned_calls(*GetParam(), kCalls, random)) {
    const uint64_t order = random();
    std::string said;
    const World clean = run(each.call, each.plan, order, &said);
    element_bytes =
        each.call.shape.op.schema().operands.empty() ? 1 : dtype_bytes(each.call.shape.op.type(0));
    for (const TaskOp op : ops_in(each.plan)) {
      const TileOp* right = own_tile_op(op);
      if (right == nullptr) continue;  // A put, which has no function.
      TileOp wrong = *right;
      right_function = right->reference;
      wrong.reference = [](const TileArgs& args) {
        planted_bug->run(args, right_function, element_bytes);
      };
      for (const FunctionBug& bug : kFunctionBugs) {
        planted_bug = &bug;
        planted_for = op;
        planted_tile = &wrong;
        const World made = run(each.call, each.plan, order, &said);
        planted_tile = nullptr;
        Tally& tally = tallies[std::string(task_op_name(op)) + " " + bug.name];
        if (made.outputs == clean.outputs) {
          ++tally.harmless;  // Of these numbers or this little of them.
          continue;
        }
        ++tally.planted;
        tally.seen += !said.empty() || !wrong_in(each.call, made).empty();
      }
    }
  }
  print(tallies);
  // What is unseen is within what rounding may do.
  for (const auto& [name, tally] : tallies) {
    EXPECT_LE(tally.planted - tally.seen, 1 + tally.planted / 10)
        << name << "\n  SK_TEST_SEED=" << first;
  }
}

// A signature of which one form does something else.
struct ChangedTile {
  ChangedTile(const Signature& right, size_t form, const std::string& steps)
      : text(steps), forms(right.forms.begin(), right.forms.end()), signature(right) {
    forms[form].steps = text.c_str();
    signature.forms = forms;
    effect = std::make_unique<const SignatureEffect>(signature);
  }
  ChangedTile(const ChangedTile&) = delete;
  ChangedTile& operator=(const ChangedTile&) = delete;

  const std::string text;
  std::vector<Form> forms;
  Signature signature;
  std::unique_ptr<const SignatureEffect> effect;
};

// Which forms of the operation's tiles a plan has.
std::set<size_t> forms_in(const Plan& plan, TaskOp op) {
  std::set<size_t> out;
  for (const RankPlan& part : plan.ranks) {
    for (const Task& task : part.tasks) {
      if (task.op != op) continue;
      const Signature& signature = *signature_of(op);
      out.insert(size_t(signature.form(part.params_of(task)) - signature.forms.data()));
    }
  }
  return out;
}

TEST_P(PlantedTiles, EffectsAreRefusedByTheirReaderOrInPlans) {
  const uint64_t first = seed();
  Random random(first);
  Tallies tallies;
  for (const Planned& each : planned_calls(*GetParam(), kCalls, random)) {
    for (const TaskOp op : ops_in(each.plan)) {
      const Signature& signature = *signature_of(op);
      for (const size_t form : forms_in(each.plan, op)) {
        Steps steps;
        ASSERT_TRUE(read_steps(signature.forms[form].steps, &steps));
        for (const ChangedSteps& changed : changed_steps(steps)) {
          const ChangedTile tile(signature, form, text_of(changed.steps));
          Tally& tally = tallies[fmt::format("{} {}: {}", signature.name, form, changed.what)];
          ++tally.planted;
          planted_for = op;
          planted_effect = &tile.effect->tile();
          const bool seen = !planted_effect->flaw().empty() || !validate(each.plan).ok();
          planted_effect = nullptr;
          ++(seen ? tally.seen : tally.harmless);
          // An axis of one element is like another of one.
        }
      }
    }
  }
  print(tallies);
  for (const auto& [name, tally] : tallies)
    EXPECT_TRUE(tally.seen > 0 || tally.planted < 5) << name << "\n  SK_TEST_SEED=" << first;
}

INSTANTIATE_TEST_SUITE_P(All, PlantedTiles, testing::ValuesIn(schemas()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace derived
}  // namespace sk
