#include "tests/multi/derived/on_reference.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lib/algo/planner.h"
#include "lib/plan/lists.h"
#include "lib/plan/validate.h"
#include "tests/multi/derived/cover.h"

namespace sk::derived {
namespace {

constexpr uint32_t kRuns = 2;  // Of which the second finds what the first has left.

constexpr size_t kTasksMax = 400;  // Of a plan: each is judged many times.

bool is_end(const OpDesc& op, int64_t rank) {
  if (!is_pair(op)) return true;
  const auto ends = ends_of(op);
  return ends[0] == uint64_t(rank) || ends[1] == uint64_t(rank);
}

// `visit(where)` for each element of a list, in their order, with the byte of it in its memory,
// where tensors lie apart. A plan has it as one vector.
template <typename Visitor>
void for_each_listed(const Case& call, uint32_t operand, int64_t rank, Visitor&& visit) {
  const uint32_t home = place_of(call.shape, operand, rank).home;
  const size_t element = dtype_bytes(call.shape.op.type(operand));
  const size_t first = call.before[size_t(rank)].operands[home].offset;
  const int64_t count = shaped(call.shape.op, call.shape.setting.ranks,
                               call.shape.op.schema().operands[operand].shape)
                            .columns;
  for (int64_t i = 0; i < count; ++i)
    visit(size_t(i) * element, first + size_t(listed_at(call.shape, i)) * element, element);
}

// All of the memory that an operand lies in: a plan names it by one of those that are there.
std::vector<std::byte> given(const Case& call, uint32_t operand, int64_t rank) {
  const uint32_t i = place_of(call.shape, operand, rank).home;
  const Memory& memory = call.before[size_t(rank)].operands[i];
  const auto first = memory.bytes.begin() + ptrdiff_t(memory.offset);
  std::vector<std::byte> bytes(first, memory.bytes.end() - ptrdiff_t(Memory::kGuard));
  const OpDesc& op = call.shape.op;
  if (op.schema().operands[i].list) {
    std::vector<std::byte> vector;
    for_each_listed(call, i, rank, [&](size_t, size_t from, size_t element) {
      const auto at = memory.bytes.begin() + ptrdiff_t(from);
      vector.insert(vector.end(), at, at + ptrdiff_t(element));
    });
    return vector;
  }
  if (op.storage(i) != Storage::kPackedB) return bytes;
  // Column after column, as the reference has it.
  const Array is = shaped(op, call.shape.setting.ranks, op.schema().operands[i].shape);
  const size_t element = dtype_bytes(op.type(i));
  std::vector<std::byte> packed(bytes.size());
  for (int64_t row = 0; row < is.rows; ++row) {
    for (int64_t column = 0; column < is.columns; ++column) {
      std::copy_n(&bytes[size_t(row * is.columns + column) * element], element,
                  &packed[size_t(column * is.rows + row) * element]);
    }
  }
  return packed;
}

}  // namespace

bool is_long(const Plan& plan) {
  size_t tasks = 0;
  for (const RankPlan& part : plan.ranks) tasks += part.tasks.size();
  return tasks > kTasksMax;
}

Target target_of(const Shape& shape, Random& random) {
  const OpDesc& op = shape.op;
  const auto one_of = [&](std::initializer_list<uint64_t> all) {
    return *(all.begin() + random() % all.size());
  };
  Target target;
  target.world_size = uint32_t(shape.setting.ranks);
  target.mapped = !shape.setting.put_only;
  target.workers = uint32_t(shape.setting.workers);
  target.cores = target.workers * target.world_size;
  target.tile_m = uint32_t(one_of({4, 16, 64}));
  target.tile_n = uint32_t(one_of({8, 16, 64}));
  target.chunk_bytes = one_of({64, 256, 1024});
  target.slot_count = uint32_t(one_of({1, 2, 4}));
  target.one_shot_bytes = one_of({0, 256, 4096});
  target.one_shot_symmetric_bytes = one_of({0, 256});
  for (uint32_t i = 0; i < op.schema().operands.size(); ++i) {
    const OperandSchema& operand = op.schema().operands[i];
    if (!operand.may_be(Storage::kPackedB)) continue;
    const Array is = shaped(op, shape.setting.ranks, operand.shape);
    target.packed_bytes = uint64_t(is.rows * is.columns) * dtype_bytes(op.type(i));
    if (is.rows == 0) target.packed_bytes = 64;  // What is packed has some bytes all the same.
  }
  return target;
}

std::vector<Planned> planned_calls(const Schema& schema, size_t count, Random& random) {
  std::vector<Shape> shapes = covering_pairs(schema, random, {{"numbers", "plain"}}).shapes;
  std::erase_if(shapes,
                [](const Shape& each) { return each.setting.ranks > 8 || !each.inside.empty(); });
  std::shuffle(shapes.begin(), shapes.end(), random);
  std::vector<Planned> out;
  for (const Shape& shape : shapes) {
    if (out.size() == count) break;
    Result<Plan> plan = make_plan(shape.op, target_of(shape, random));
    for (int tries = 0; tries < 5 && plan.ok() && is_long(plan.value()); ++tries)
      plan = make_plan(shape.op, target_of(shape, random));
    if (plan.ok() && is_long(plan.value())) continue;
    if (!plan.ok()) {
      ADD_FAILURE() << plan.status().message() << " of " << text_of(shape);
      continue;
    }
    const Status valid = validate(plan.value());
    out.push_back({make_case(shape, random), std::move(plan).value()});
    const std::string wrong = valid.ok()
                                  ? wrong_on_reference(out.back().call, out.back().plan, random())
                                  : std::string(valid.message());
    if (wrong.empty()) continue;
    ADD_FAILURE() << wrong << " of " << text_of(shape);
    out.pop_back();
  }
  return out;
}

World run(const Case& call, const Plan& plan, uint64_t seed, std::string* said) {
  const auto ranks = size_t(call.shape.setting.ranks);
  World world;
  world.inputs.assign(kRuns, std::vector<OperandBytes>(ranks));
  for (auto& inputs : world.inputs) {
    for (size_t rank = 0; rank < ranks; ++rank) {
      for (uint32_t i = 0; i < call.shape.op.schema().operands.size(); ++i) {
        if (has(call.shape, i, int64_t(rank))) inputs[rank][i] = given(call, i, int64_t(rank));
      }
    }
  }
  const Status status = run_reference(with_run_values(plan, call.shape.values), world, seed);
  *said = status.ok() ? "" : std::string(status.message());
  return world;
}

std::string wrong_in(const Case& call, const World& world) {
  for (const auto& outputs : world.outputs) {
    for (size_t rank = 0; rank < outputs.size(); ++rank) {
      if (!is_end(call.shape.op, int64_t(rank))) continue;
      RankMemory after = call.before[rank];
      for (uint32_t i = 0; i < after.operands.size(); ++i) {
        const std::vector<std::byte>& made = outputs[rank][i];
        const bool packed = call.shape.op.storage(i) == Storage::kPackedB;
        if (packed || made.empty() || !has(call.shape, i, int64_t(rank))) continue;
        Memory& memory = after.operands[place_of(call.shape, i, int64_t(rank)).home];
        if (call.shape.op.schema().operands[i].list) {
          size_t listed = 0;
          for_each_listed(call, i, int64_t(rank), [&](size_t from, size_t to, size_t element) {
            if (from + element <= made.size()) std::copy_n(&made[from], element, &memory.bytes[to]);
            listed = from + element;
          });
          if (listed != made.size()) return "a list has another size";
          continue;
        }
        if (memory.offset + made.size() + Memory::kGuard != memory.bytes.size())
          return "an operand has another size";
        std::copy(made.begin(), made.end(), memory.bytes.begin() + ptrdiff_t(memory.offset));
      }
      const std::string wrong = wrong_in(call, int64_t(rank), after);
      if (!wrong.empty()) return wrong;
    }
  }
  return "";
}

std::string wrong_on_reference(const Case& call, const Plan& plan, uint64_t seed) {
  std::string said;
  const World world = run(call, plan, seed, &said);
  return said.empty() ? wrong_in(call, world) : said;
}

void print(const Tallies& tallies) {
  for (const auto& [name, is] : tallies) {
    std::printf("%s: planted %d, seen %d, harmless %d\n", name.c_str(), is.planted, is.seen,
                is.harmless);
  }
}

}  // namespace sk::derived
