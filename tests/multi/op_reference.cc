#include "tests/multi/op_reference.h"

#include <algorithm>
#include <cstring>

#include "lib/algo/planner.h"
#include "lib/exec/reference.h"
#include "lib/plan/check/operands.h"
#include "lib/plan/packed.h"
#include "lib/plan/text.h"
#include "lib/plan/validate.h"
#include "tests/multi/op_case.h"
#include "tests/support/op_words.h"

namespace sk::testing_ops {
namespace {

constexpr uint32_t kRuns = 2;

using Inputs = std::vector<std::vector<char>>;

// Of another run: the same shapes with other values.
Case case_of_run(Case c, uint32_t run) {
  c.seed += run;
  return c;
}

// What sk_plan_create() plans, by way of its text; empty where that fails.
std::string planned(sk_comm* comm, const Case& c) {
  sk_plan_desc desc{};
  desc.struct_size = sizeof(desc);
  desc.kind = c.kind;
  const bool gemm = multiplies(c), message = c.kind == SK_OP_SEND_RECV;
  const bool rooted = c.kind == SK_OP_BROADCAST || message;
  if (c.kind != SK_OP_BARRIER) {
    desc.dtype = c.dtype;
    desc.out_dtype = c.out_dtype;
    if (c.symmetric) desc.flags = SK_PLAN_SYMMETRIC_IN | SK_PLAN_SYMMETRIC_OUT;
    if (c.in_place && !rooted && !gemm) desc.flags |= SK_PLAN_IN_PLACE;
    if (!gemm) desc.count = c.count;
  }
  if (c.kind == SK_OP_ALLREDUCE || c.kind == SK_OP_REDUCE_SCATTER) desc.op = c.op;
  if (rooted) desc.root = c.root;
  if (message) desc.peer = c.peer;
  if (gemm) {
    desc.m = c.m;
    desc.n = c.n;
    desc.k = c.k;
  }
  sk_plan* plan = nullptr;
  if (sk_plan_create(comm, &desc, &plan) != SK_OK) return "";
  size_t size = 0;
  sk_status dumped = sk_plan_dump(plan, nullptr, 0, &size);
  std::string text(size + 1, '\0');
  if (dumped == SK_OK) dumped = sk_plan_dump(plan, text.data(), text.size(), &size);
  text.resize(size);
  return sk_plan_free(plan) == SK_OK && dumped == SK_OK ? text : "";
}

// The plan of this very call; sk_plan_desc knows no transposes and no B to be packed.
Result<Plan> plan_of(sk_comm* comm, const Case& c) {
  const std::string text = planned(comm, c);
  if (text.empty()) return error(SK_ERR_INTERNAL, "{}", sk_last_error());
  SK_ASSIGN_OR_RETURN(Plan plan, parse(text));
  if (!multiplies(c)) return plan;
  TextOp op = text_op(plan.op);
  op.transpose_a = c.transpose_a;
  op.lda = std::max<int64_t>(1, c.transpose_a ? c.m : c.k);
  op.pack_b = !c.packed;
  op.transpose_b = !c.packed && c.transpose_b;
  op.ldb = c.packed ? 0 : std::max<int64_t>(1, c.transpose_b ? c.k : c.n);
  SK_ASSIGN_OR_RETURN(Plan again, make_plan(testing_support::op_desc(op), plan.target));
  SK_RETURN_IF_ERROR(validate(again));
  return again;
}

// B as the reference wants packed weights, column after column (packed.h), and a byte of nothing
// behind them, as inputs have it.
std::vector<char> columns(const Case& c, const std::vector<char>& b, uint64_t bytes) {
  const size_t element = size_of(c.dtype);
  const size_t pitch = packed_pitch(uint64_t(c.k), uint64_t(c.n), element, bytes);
  std::vector<char> out(size_t(c.n) * pitch + 1);
  for (int64_t column = 0; column < c.n; ++column) {
    for (int64_t i = 0; i < c.k; ++i) {
      const int64_t at = c.transpose_b ? column * c.k + i : i * c.n + column;
      std::memcpy(&out[size_t(column) * pitch + size_t(i) * element], &b[size_t(at) * element],
                  element);
    }
  }
  return out;
}

constexpr uint32_t kIn = 0, kOut = 1;  // In place both are windows of one buffer.

void give(const Plan& plan, const Case& c, const Inputs& inputs, const Inputs& weights,
          std::vector<OperandBytes>& to) {
  const Operands operands = check::operands_of(plan);
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.kind != BufferKind::kInput && buffer.kind != BufferKind::kInOut) continue;
    const bool is_b = buffer.operand == 2;
    const std::vector<char>& own = (is_b ? weights : inputs)[buffer.owner];
    const std::vector<char> from = is_b && c.packed ? columns(c, own, buffer.bytes) : own;
    std::vector<std::byte>& bytes = to[buffer.owner][buffer.operand];
    bytes.resize(buffer.bytes);
    const uint64_t first = is_b ? 0 : operands.window(kIn, buffer.owner).first;
    std::memcpy(bytes.data() + first, from.data(), std::min(from.size() - 1, bytes.size() - first));
  }
}

std::string compare(const Plan& plan, const Case& c, const Inputs& inputs, const Inputs& weights,
                    const std::vector<OperandBytes>& found) {
  const Operands operands = check::operands_of(plan);
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.kind != BufferKind::kOutput && buffer.kind != BufferKind::kInOut) continue;
    const std::vector<double> want = expected(c, int(buffer.owner), inputs, weights);
    const std::byte* out =
        found[buffer.owner][buffer.operand].data() + operands.window(kOut, buffer.owner).first;
    const std::string wrong = first_difference(c, reinterpret_cast<const char*>(out), want);
    if (!wrong.empty()) return "rank " + std::to_string(buffer.owner) + ", " + wrong;
  }
  return "";
}

}  // namespace

std::string differs_in_reference(sk_comm* comm, const Case& c, int ranks) {
  Result<Plan> made = plan_of(comm, c);
  if (!made.ok()) return "for the reference: " + made.status().message();
  const Plan& plan = *made;
  World world;
  std::vector<Inputs> inputs, weights;
  for (uint32_t run = 0; run < kRuns; ++run) {
    inputs.push_back(make_inputs(case_of_run(c, run), ranks, false));
    weights.push_back(make_inputs(case_of_run(c, run), ranks, true));
    world.inputs.emplace_back(size_t(ranks));
    give(plan, c, inputs[run], weights[run], world.inputs[run]);
  }
  const Status status = run_reference(plan, world, c.seed);
  if (!status.ok()) return "in the reference: " + status.message();
  for (uint32_t run = 0; run < kRuns; ++run) {
    const std::string wrong = compare(plan, c, inputs[run], weights[run], world.outputs[run]);
    if (!wrong.empty()) return "in the reference, run " + std::to_string(run) + ", " + wrong;
  }
  return "";
}

}  // namespace sk::testing_ops
