// Operations, packed weights, plans.
#include <algorithm>
#include <cstring>

#include "tests/fuzz/abi/tensors.h"

namespace sk::fuzz_abi {
namespace {

constexpr uint64_t kRanksMax = 3;  // Of a world that the fuzzer makes.
constexpr size_t kAliveMax = 12;
// Enough for every operation of a plan's counts in the largest world, and for its products.
constexpr uint64_t kPlanBytes = 32 * 32 * 8 * kRanksMax;
static_assert(kPlanBytes >= 600 * 8 * kRanksMax);

// A count for which there is memory in every world, or one that no memory has.
int64_t count_of(Caller& c) {
  constexpr int64_t kNever[] = {-1, INT64_MIN, INT64_MAX, INT64_MAX / 8 + 1, int64_t(1) << 47};
  return c.random.one_in(6) ? kNever[c.random.below(5)] : int64_t(c.random.below(600));
}

struct Elements {
  // `in_blocks` and `out_blocks` of `count` elements each.
  Elements(Caller& c, uint64_t in_blocks, uint64_t out_blocks) : options(c) {
    comm = c.handle<sk_comm>(kComm);
    dtype = int32_t(c.random.around(SK_F32, SK_I64));
    count = count_of(c);
    const uint64_t bytes = count < 0 || count > 600 ? 64 : uint64_t(count) * element_bytes(dtype);
    in = c.operand(c.in, bytes * in_blocks);
    out = c.random.one_in(4) ? in : c.operand(c.out, bytes * out_blocks);
    if (out == in && in_blocks < out_blocks) out = c.operand(c.out, bytes * out_blocks);
  }
  sk_comm* comm;
  void *in, *out;
  int64_t count;
  int32_t dtype;
  Options options;
};

void allreduce(Caller& c) {
  const Elements e(c, 1, 1);
  const auto op = int32_t(c.random.around(SK_SUM, SK_AVG));
  c.check(sk_allreduce(e.comm, e.in, e.out, e.count, e.dtype, op, e.options.pointer));
}
void allgather(Caller& c) {
  const Elements e(c, 1, kRanksMax);
  c.check(sk_allgather(e.comm, e.in, e.out, e.count, e.dtype, e.options.pointer));
}
void reduce_scatter(Caller& c) {
  const Elements e(c, kRanksMax, 1);
  const auto op = int32_t(c.random.around(SK_SUM, SK_AVG));
  c.check(sk_reduce_scatter(e.comm, e.in, e.out, e.count, e.dtype, op, e.options.pointer));
}
void broadcast(Caller& c) {
  const Elements e(c, 1, 1);
  const auto root = int32_t(c.random.around(0, 2));
  c.check(sk_broadcast(e.comm, e.in, e.out, e.count, e.dtype, root, e.options.pointer));
}
void barrier(Caller& c) {
  const Options options(c);
  c.check(sk_barrier(c.handle<sk_comm>(kComm), options.pointer));
}
void synchronize(Caller& c) {
  const Options options(c);
  c.check(sk_comm_synchronize(c.handle<sk_comm>(kComm), options.pointer));
}
void send(Caller& c) {
  const Elements e(c, 1, 1);
  const auto peer = int32_t(c.random.around(0, 2));
  c.check(sk_send(e.comm, e.in, e.count, e.dtype, peer, e.options.pointer));
}
void recv(Caller& c) {
  const Elements e(c, 1, 1);
  const auto peer = int32_t(c.random.around(0, 2));
  c.check(sk_recv(e.comm, e.out, e.count, e.dtype, peer, e.options.pointer));
}

int32_t gemm_dtype(Caller& c) {
  return c.random.one_in(8) ? int32_t(c.random.around(SK_F32, SK_I64))
                            : int32_t(1 + c.random.below(4));
}

void pack(Caller& c) {
  if (c.pool.count(kPacked) >= kAliveMax) {
    auto* old = static_cast<sk_packed*>(c.pool.live(c.random, kPacked).value);
    const sk_status status = sk_packed_free(old);
    if (status == SK_OK) c.pool.drop(kPacked, old);
    return c.check(status);
  }
  auto b = matrix(c, c.in, int64_t(c.random.below(40)), int64_t(c.random.below(40)), gemm_dtype(c));
  const auto flags = uint32_t(c.random.around(0, 3));
  sk_packed* made = nullptr;
  const sk_status status =
      sk_pack(c.handle<sk_comm>(kComm), b.get(), flags, c.random.one_in(16) ? nullptr : &made);
  c.check(status);
  b.check("sk_pack", false);
  if (status == SK_OK) c.pool.add(kPacked, {made});
}

void packed_free(Caller& c) {
  auto* packed = c.handle<sk_packed>(kPacked);
  const sk_status status = sk_packed_free(packed);
  if (status == SK_OK) c.pool.drop(kPacked, packed);
  c.check(status);
}

void multiply(Caller& c, bool gathers) {
  const auto m = int64_t(c.random.below(40)), n = int64_t(c.random.below(40)),
             k = int64_t(c.random.below(40));
  const int32_t dtype = gemm_dtype(c);
  const int32_t c_dtype = c.random.one_in(4) ? int32_t(SK_F32) : dtype;
  // A and B share the memory of inputs, each to its end.
  static thread_local Guarded b_memory(1 << 15);
  const auto flags = uint32_t(c.random.around(0, 3));
  const bool ta = (flags & 1) != 0, tb = (flags & 2) != 0;
  auto a = matrix(c, c.in, ta ? k : m, ta ? m : k, dtype);
  auto b = matrix(c, b_memory, tb ? n : k, tb ? k : n, dtype);
  auto out = matrix(c, c.out, gathers ? m * int64_t(1 + c.random.below(kRanksMax)) : m, n, c_dtype);
  const bool use_packed = c.random.one_in(3);
  auto* packed = use_packed ? c.handle<sk_packed>(kPacked) : nullptr;
  const Options options(c);
  const auto call = gathers ? sk_allgather_gemm : sk_allreduce_gemm;
  c.check(call(c.handle<sk_comm>(kComm), a.get(), use_packed ? nullptr : b.get(), packed, out.get(),
               flags, options.pointer));
  const char* name = gathers ? "sk_allgather_gemm" : "sk_allreduce_gemm";
  b_memory.check(name);
  out.check(name, false);
}

void allreduce_gemm(Caller& c) { multiply(c, /*gathers=*/false); }
void allgather_gemm(Caller& c) { multiply(c, /*gathers=*/true); }

// What a kind does not use is refused; so that plans come about at all, most descriptions lack it.
void keep_what_is_used(sk_plan_desc& desc) {
  const int32_t kind = desc.kind;
  const bool gemm = kind == SK_OP_ALLREDUCE_GEMM || kind == SK_OP_ALLGATHER_GEMM,
             message = kind == SK_OP_SEND_RECV;
  const bool reduces = kind == SK_OP_ALLREDUCE || kind == SK_OP_REDUCE_SCATTER;
  if (!gemm) desc.out_dtype = 0;
  if (!gemm) desc.m = desc.n = desc.k = 0;
  if (!reduces) desc.op = 0;
  if (kind != SK_OP_BROADCAST && !message) desc.root = 0;
  if (!message) desc.peer = 0;
  if (!reduces && kind != SK_OP_ALLGATHER) desc.flags &= ~uint32_t(SK_PLAN_IN_PLACE);
  if (gemm) desc.count = 0;
  if (kind != SK_OP_BARRIER) return;
  desc.dtype = 0;
  desc.count = 0;
  desc.flags = 0;
}

void plan_create(Caller& c) {
  if (c.pool.count(kPlan) >= kAliveMax) {
    auto* old = static_cast<sk_plan*>(c.pool.live(c.random, kPlan).value);
    const sk_status status = sk_plan_free(old);
    if (status == SK_OK) c.pool.drop(kPlan, old);
    return c.check(status);
  }
  sk_plan_desc desc{};
  desc.kind = int32_t(c.random.around(SK_OP_BARRIER, SK_OP_ALLGATHER_GEMM));
  desc.dtype = int32_t(c.random.around(SK_F32, SK_I64));
  desc.out_dtype = int32_t(c.random.below(3));
  desc.op = int32_t(c.random.around(0, SK_AVG));
  desc.root = int32_t(c.random.around(0, 1));
  desc.peer = int32_t(c.random.around(0, 1));
  desc.flags = c.random.one_in(8) ? uint32_t(c.random.bits()) : uint32_t(c.random.below(8));
  desc.count = count_of(c);
  constexpr int64_t kNever[] = {-1, INT64_MIN, INT64_MAX, int64_t(1) << 50};
  for (int64_t* size : {&desc.m, &desc.n, &desc.k})
    *size = c.random.one_in(24) ? kNever[c.random.below(4)] : int64_t(c.random.below(32));
  if (!c.random.one_in(4)) keep_what_is_used(desc);
  Given given(c.random, desc);
  sk_plan* made = nullptr;
  const sk_status status =
      sk_plan_create(c.handle<sk_comm>(kComm), given.get(), c.random.one_in(16) ? nullptr : &made);
  c.check(status);
  given.check("sk_plan_create", false);
  if (status != SK_OK) return;
  c.pool.add(kPlan, {made, kPlanBytes, kPlanBytes});
}

void plan_run(Caller& c) {
  const Handle plan = c.pool.any(c.random, kPlan);
  void* in = c.operand(c.in, std::max<uint64_t>(plan.in_bytes, kPlanBytes));
  void* out = c.operand(c.out, std::max<uint64_t>(plan.out_bytes, kPlanBytes));
  auto* weights = c.random.one_in(3) ? c.handle<sk_packed>(kPacked) : nullptr;
  const Options options(c);
  c.check(sk_plan_run(static_cast<sk_plan*>(plan.value), in, weights, out, options.pointer));
}

void plan_dump(Caller& c) {
  const size_t capacity = c.random.below(8192);
  auto* buffer = static_cast<char*>(c.operand(c.out, capacity));
  size_t size = 0;
  c.check(sk_plan_dump(c.handle<sk_plan>(kPlan), buffer, capacity,
                       c.random.one_in(16) ? nullptr : &size));
}

// A plan's text, with some characters changed, in memory that ends with it.
struct PlanText {
  const char* bytes;
  size_t length;
};

PlanText plan_text(Caller& c) {
  std::string text(16384, '\0');
  size_t size = 0;
  auto* plan = static_cast<sk_plan*>(c.pool.live(c.random, kPlan).value);
  const sk_status dumped = sk_plan_dump(plan, text.data(), text.size(), &size);
  text.resize(dumped == SK_OK ? size : c.random.below(100));
  for (uint64_t n = c.random.below(4); n > 0 && !text.empty(); --n)
    text[c.random.below(text.size())] = char('0' + c.random.below(75));
  auto* bytes = static_cast<char*>(c.operand(c.in, text.size()));
  if (bytes != nullptr) std::copy(text.begin(), text.end(), bytes);  // Without an end: of a length.
  return {bytes, c.random.one_in(16) ? size_t(-1) : text.size()};
}

void plan_check(Caller& c) {
  const PlanText text = plan_text(c);
  c.check(sk_plan_check(text.bytes, text.length));
}

// A count that was changed may be of more memory than the fuzzer's runs give: such a plan is not
// run here.
void plan_parse(Caller& c) {
  if (c.pool.count(kPlan) >= kAliveMax) return plan_create(c);  // Which frees one.
  const PlanText text = plan_text(c);
  sk_plan* made = nullptr;
  const sk_status status = sk_plan_parse(c.handle<sk_comm>(kComm), text.bytes, text.length,
                                         c.random.one_in(16) ? nullptr : &made);
  c.check(status);
  if (status == SK_OK) c.check(sk_plan_free(made));
}

void plan_free(Caller& c) {
  auto* plan = c.handle<sk_plan>(kPlan);
  const sk_status status = sk_plan_free(plan);
  if (status == SK_OK) c.pool.drop(kPlan, plan);
  c.check(status);
}

}  // namespace

const std::vector<Function>& op_functions() {
  static const std::vector<Function> all = {
      {"sk_allreduce", 40, true, allreduce},
      {"sk_allgather", 40, true, allgather},
      {"sk_reduce_scatter", 40, true, reduce_scatter},
      {"sk_broadcast", 40, true, broadcast},
      {"sk_barrier", 20, true, barrier},
      {"sk_comm_synchronize", 20, true, synchronize},
      {"sk_send", 20, true, send},
      {"sk_recv", 20, true, recv},
      {"sk_pack", 30, true, pack},
      {"sk_packed_free", 10, true, packed_free},
      {"sk_allreduce_gemm", 40, true, allreduce_gemm},
      {"sk_allgather_gemm", 40, true, allgather_gemm},
      {"sk_plan_create", 30, true, plan_create},
      {"sk_plan_parse", 20, true, plan_parse},
      {"sk_plan_run", 40, true, plan_run},
      {"sk_plan_dump", 20, true, plan_dump},
      {"sk_plan_check", 10, true, plan_check},
      {"sk_plan_free", 10, true, plan_free},
  };
  return all;
}

}  // namespace sk::fuzz_abi
