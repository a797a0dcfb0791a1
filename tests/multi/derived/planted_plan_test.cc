// A planner's mistakes, each planted in plans that the library makes of calls of every operation:
// the validator refuses the plan, or runs of it are right all the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "lib/plan/free_rows.h"
#include "lib/plan/task_info.h"
#include "lib/plan/text.h"
#include "lib/plan/validate.h"
#include "tests/multi/derived/on_reference.h"
#include "tests/multi/derived/run_cases.h"

namespace sk::derived {
namespace {

constexpr size_t kCalls = 24;  // Of an operation, in a round.
constexpr int kRounds = 12;
constexpr int kPlansMany = 40;  // So many cannot all be right by chance.

// One task of a plan, where its tables can be changed.
struct Chosen {
  RankPlan& part;
  Task& task;

  Wait& wait(size_t i) { return part.waits[task.first_wait + i]; }
  Post& post(size_t i) { return part.posts[task.first_post + i]; }
  Region& region(size_t i) { return part.regions[task.first_region + i]; }
  int64_t& param(size_t i) { return part.params[task.first_param + i]; }
};

class Planting {
 public:
  Planting(Plan& plan, Random& random) : plan_(plan), random_(random) {}

  uint64_t draw(uint64_t count) { return random_() % count; }
  uint64_t element() const {
    return plan_.op.schema().operands.empty() ? 1 : dtype_bytes(plan_.op.type(0));
  }
  // One of all tasks that have what is asked for.
  std::optional<Chosen> task(const std::function<bool(const Task&)>& fits) {
    std::vector<std::pair<RankPlan*, Task*>> all;
    for (RankPlan& part : plan_.ranks) {
      for (Task& each : part.tasks) {
        if (fits(each)) all.push_back({&part, &each});
      }
    }
    if (all.empty()) return std::nullopt;
    const auto& [part, task] = all[draw(all.size())];
    return Chosen{*part, *task};
  }
  // Another one of its rank that does the same.
  std::optional<Chosen> neighbour(const Chosen& of) {
    return task([&](const Task& each) {
      return &each != &of.task && each.op == of.task.op &&
             each.region_count == of.task.region_count && &each >= of.part.tasks.data() &&
             &each < of.part.tasks.data() + of.part.tasks.size();
    });
  }
  // One of all that are used so.
  int64_t* parameter(ParamUse use) {
    std::vector<int64_t*> all;
    for (RankPlan& part : plan_.ranks) {
      for (const Task& each : part.tasks) {
        for (size_t i = 0; i < each.param_count; ++i) {
          if (signature_of(each.op)->parameters[i].use == use)
            all.push_back(&part.params[each.first_param + i]);
        }
      }
    }
    return all.empty() ? nullptr : all[draw(all.size())];
  }
  Region* region() {
    const auto found = task([](const Task& each) { return each.region_count > 0; });
    return found ? &found->part.regions[found->task.first_region + draw(found->task.region_count)]
                 : nullptr;
  }

 private:
  Plan& plan_;
  Random& random_;
};

struct Mistake {
  const char* name;
  void (*plant)(Planting& at);  // Nothing is changed where the plan has no place for it.
  // It may change nothing: of tasks that do not know each other, of a rank alone.
  bool is_harmless = false;
};

const Mistake kMistakes[] = {
    {"a wait is dropped",
     [](Planting& at) {
       auto in = at.task([](const Task& task) { return task.wait_count > 0; });
       if (!in) return;
       std::swap(in->wait(at.draw(in->task.wait_count)), in->wait(in->task.wait_count - 1));
       --in->task.wait_count;
     }},
    {"a wait is for one post less",
     [](Planting& at) {
       auto in = at.task([](const Task& task) { return task.wait_count > 0; });
       if (!in) return;
       Wait& wait = in->wait(at.draw(in->task.wait_count));
       if (wait.target > 1) --wait.target;
     }},
    {"another signal is waited for",
     [](Planting& at) {
       auto in = at.task([](const Task& task) { return task.wait_count > 0; });
       if (!in) return;
       const Signal& other = in->part.signals[at.draw(in->part.signals.size())];
       Wait& wait = in->wait(at.draw(in->task.wait_count));
       wait.producer = other.producer;
       wait.signal = other.number;
     }},
    {"a post is dropped",
     [](Planting& at) {
       auto in = at.task([](const Task& task) { return task.post_count > 0; });
       if (!in) return;
       std::swap(in->post(at.draw(in->task.post_count)), in->post(in->task.post_count - 1));
       --in->task.post_count;
     }},
    {"another queue's signal is posted",
     [](Planting& at) {
       auto in = at.task([](const Task& task) { return task.post_count > 0; });
       if (!in) return;
       const Post& other = in->part.posts[at.draw(in->part.posts.size())];
       Post& post = in->post(at.draw(in->task.post_count));
       post.rank = other.rank;
       post.signal = other.signal;
     }},
    {"a region is a row too far",
     [](Planting& at) {
       if (Region* region = at.region()) region->offset += region->pitch;
     }},
    {"a region is an element too far",
     [](Planting& at) {
       if (Region* region = at.region()) region->offset += at.element();
     }},
    {"a region is an element too short",
     [](Planting& at) {
       Region* region = at.region();
       if (region == nullptr || region->row_bytes < at.element()) return;
       region->row_bytes -= at.element();
       if (region->rows == 1) region->pitch = region->row_bytes;
     }},
    {"two regions are swapped",
     [](Planting& at) {
       auto in = at.task([](const Task& task) { return task.region_count > 1; });
       if (!in) return;
       Region& one = in->region(at.draw(in->task.region_count));
       Region& other = in->region(at.draw(in->task.region_count));
       std::swap(one, other);
       std::swap(one.access, other.access);
     }},
    {"it has the neighbour's extent",
     [](Planting& at) {
       auto in = at.task([](const Task& task) { return task.region_count > 0; });
       auto beside = in ? at.neighbour(*in) : std::nullopt;
       if (!beside) return;
       const auto which = at.draw(in->task.region_count);
       const Region& other = beside->region(which);
       Region& region = in->region(which);
       region.rows = other.rows;
       region.row_bytes = other.row_bytes;
       region.pitch = other.pitch;
     }},
    {"it has the neighbour's place",
     [](Planting& at) {
       auto in = at.task([](const Task& task) { return task.region_count > 0; });
       auto beside = in ? at.neighbour(*in) : std::nullopt;
       if (!beside) return;
       const auto which = at.draw(in->task.region_count);
       in->region(which).offset = beside->region(which).offset;
     }},
    {"it is in another rank's buffer",
     [](Planting& at) {
       Region *region = at.region(), *other = at.region();
       if (region != nullptr) region->buffer = other->buffer;
     }},
    {"a tile is skipped",
     [](Planting& at) {
       auto in = at.task([](const Task& task) { return task.region_count > 0; });
       if (!in) return;
       in->task.op = TaskOp::kNop;
       in->task.region_count = 0;
       in->task.param_count = 0;
       in->task.flags &= kAfterAll;
     }},
    {"two tasks change places",
     [](Planting& at) {
       auto in = at.task([](const Task&) { return true; });
       for (const Queue& queue : in ? in->part.queues : std::vector<Queue>()) {
         const auto index = uint32_t(&in->task - in->part.tasks.data());
         if (index > queue.first_task && index < queue.first_task + queue.task_count)
           std::swap(in->part.tasks[index - 1], in->part.tasks[index]);
       }
     },
     true},
    {"a parameter is one more",
     [](Planting& at) {
       if (int64_t* is = at.parameter(ParamUse::kMeaning)) ++*is;
     }},
    {"a parameter is one less",
     [](Planting& at) {
       if (int64_t* is = at.parameter(ParamUse::kMeaning)) --*is;
     }},
    {"its place in its array is one more",
     [](Planting& at) {
       if (int64_t* is = at.parameter(ParamUse::kPlace)) ++*is;
     }},
    {"its place in its array is one less",
     [](Planting& at) {
       if (int64_t* is = at.parameter(ParamUse::kPlace)) --*is;
     }},
    {"a value of a run is another",
     [](Planting& at) {
       if (int64_t* is = at.parameter(ParamUse::kRun)) *is = *is == kRunValue ? *is + 1 : kRunValue;
     }},
    {"a hint is another",
     [](Planting& at) {
       if (int64_t* is = at.parameter(ParamUse::kHint)) ++*is;
     },
     true},
    {"peers are not awaited",
     [](Planting& at) {
       auto in = at.task([](const Task& task) { return task.op == TaskOp::kAwait; });
       if (in) in->task.op = TaskOp::kNop;
     },
     true},
    {"it is not after all",
     [](Planting& at) {
       auto in = at.task([](const Task& task) { return (task.flags & kAfterAll) != 0; });
       if (in) in->task.flags &= uint8_t(~kAfterAll);
     }},
    {"rows are not cut",
     [](Planting& at) {
       constexpr uint8_t kFree = kFreeRows | kFreeBlocks;
       auto in = at.task([](const Task& task) { return (task.flags & kFree) != 0; });
       if (in) in->task.flags &= uint8_t(~kFree);
     }},
    {"its posts are not in order",
     [](Planting& at) {
       auto in = at.task([](const Task& task) { return (task.flags & kPostsInOrder) != 0; });
       if (in) in->task.flags &= uint8_t(~kPostsInOrder);
     },
     true},
};

class PlantedPlans : public testing::TestWithParam<const Schema*> {};

// `mistake` in that plan, three times; whether there was a place for it.
bool plant(const Planned& each, const Mistake& mistake, Random& random, uint64_t first,
           Tally& tally) {
  const int before = tally.planted;
  for (int turn = 0; turn < 3; ++turn) {
    Plan plan = each.plan;
    Planting at(plan, random);
    mistake.plant(at);
    if (plan == each.plan) continue;
    ++tally.planted;
    if (!validate(plan).ok()) {
      ++tally.seen;
      continue;
    }
    for (int some = 0; plan.free.number != 0 && some < 5; ++some) {
      const Plan exact = in_effect(plan, random() % (free_extent(plan) + 1));
      EXPECT_EQ(validate(exact).message(), "") << mistake.name << ": " << dump(exact);
    }
    for (int order = 0; order < 3; ++order) {
      EXPECT_EQ(wrong_on_reference(each.call, plan, random()), "")
          << mistake.name << ": " << text_of(each.call.shape) << "\n  SK_TEST_SEED=" << first;
    }
    ++tally.harmless;
  }
  return tally.planted > before;
}

TEST_P(PlantedPlans, AreRefusedOrRightAllTheSame) {
  const uint64_t first = seed();
  Random random(first);
  Tallies tallies;
  std::map<std::string, int> plans;  // That had a place for it.
  const auto is_unseen = [&](const Mistake& mistake) {
    return !mistake.is_harmless && plans[mistake.name] > 0 && tallies[mistake.name].seen == 0;
  };
  const std::span<const Mistake> all(kMistakes);
  // Some plans are right with the mistake, of one task or none. So more of them, until it is seen.
  for (int round = 0; round < kRounds; ++round) {
    if (round > 0 && std::none_of(all.begin(), all.end(), is_unseen)) break;
    for (const Planned& each : planned_calls(*GetParam(), kCalls, random)) {
      for (const Mistake& mistake : all) {
        if (round > 0 && !is_unseen(mistake)) continue;
        plans[mistake.name] += plant(each, mistake, random, first, tallies[mistake.name]) ? 1 : 0;
      }
    }
  }
  print(tallies);
  int planted = 0;
  for (const Mistake& mistake : all) {
    planted += tallies[mistake.name].planted;
    EXPECT_FALSE(is_unseen(mistake) && plans[mistake.name] >= kPlansMany)
        << mistake.name << "\n  SK_TEST_SEED=" << first;
  }
  EXPECT_GT(planted, 20);
}

INSTANTIATE_TEST_SUITE_P(All, PlantedPlans, testing::ValuesIn(schemas()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace sk::derived
