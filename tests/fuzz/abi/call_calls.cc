// sk_call() of every operation that the library says it has, and what it says of them.
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "tests/fuzz/abi/list_arguments.h"

namespace sk::fuzz_abi {

void spoil(Random& random, sk_tensor& tensor) {
  constexpr int64_t kNever[] = {-1, INT64_MIN, INT64_MAX, int64_t(1) << 62};
  switch (random.below(40)) {
    case 0:
      tensor.dtype = int32_t(random.number() | 0x100);
      break;
    case 1:
      tensor.ndim = int32_t(random.around(-1, 1));
      break;
    case 2:
      tensor.shape[random.below(2)] = kNever[random.below(4)];
      break;
    case 3:
      tensor.strides[random.below(2)] = kNever[random.below(3)];
      break;
    case 4:
      tensor.device_type = int32_t(random.number() | 1);
      break;
    case 5:
      tensor.device_id = int32_t(random.number() | 1);
      break;
    case 6:
      tensor.reserved = int32_t(random.number() | 1);
      break;
    default:
      break;
  }
}

Given<sk_tensor> matrix(Caller& c, Guarded& memory, int64_t rows, int64_t cols, int32_t dtype,
                        int32_t ndim) {
  if (ndim == 1) rows = 1;
  sk_tensor t{};
  t.dtype = dtype;
  t.ndim = 2;
  const int64_t pitch = cols + int64_t(c.random.below(4));
  const int64_t bytes =
      (std::max<int64_t>(0, rows - 1) * pitch + cols) * int64_t(element_bytes(dtype));
  t.data = c.operand(memory, uint64_t(rows == 0 ? 0 : bytes));
  t.shape[0] = rows;
  t.shape[1] = cols;
  t.strides[0] = pitch;
  t.strides[1] = 1;
  if (ndim == 1) {
    t.ndim = 1;
    t.shape[0] = cols;
    t.strides[0] = 1;
  }
  spoil(c.random, t);
  return Given(c.random, t);
}

namespace {

struct Field {
  std::string kind;
  uint32_t offset;
};
struct Operation {
  int32_t id;
  uint32_t bytes;
  std::vector<Field> fields;
};

// What stands behind `name` in `text`, up to a comma or a bracket; cut off what was read.
std::string_view take(std::string_view& text, std::string_view name) {
  const size_t at = text.find(name);
  if (at == text.npos) return text = {};
  text.remove_prefix(at + name.size());
  const std::string_view value = text.substr(0, text.find_first_of(",}]"));
  return value;
}
uint32_t number(std::string_view text) {
  return uint32_t(std::strtoul(std::string(text).c_str(), nullptr, 10));
}

std::vector<Operation> operations() {
  size_t size = 0;
  if (sk_op_describe(nullptr, nullptr, 0, &size) != SK_OK) fail(sk_last_error());
  std::string text(size + 1, '\0');
  if (sk_op_describe(nullptr, text.data(), text.size(), &size) != SK_OK) fail(sk_last_error());
  std::vector<Operation> all;
  for (std::string_view rest = text; rest.find("\"id\": ") != rest.npos;) {
    Operation next{int32_t(number(take(rest, "\"id\": "))), 0, {}};
    take(rest, "\"fields\": ");
    std::string_view fields = rest.substr(0, rest.find("\"bytes\": "));
    while (fields.find("\"kind\": \"") != fields.npos) {
      std::string kind(take(fields, "\"kind\": \""));
      kind.resize(kind.find('"'));
      next.fields.push_back({kind, number(take(fields, "\"offset\": "))});
    }
    next.bytes = number(take(rest, "\"bytes\": "));
    all.push_back(std::move(next));
  }
  if (all.size() < 7) fail("sk_op_describe() tells of too few operations: " + text);
  return all;
}

// Extents of few kinds, so that operands often fit together.
int64_t extent(Caller& c) {
  constexpr int64_t kExtents[] = {0, 1, 3, 8, 24};
  return kExtents[c.random.below(5)];
}

// Arguments of some operation, more or less.
struct Arguments {
  std::array<unsigned char, 4096> bytes{};
  std::vector<std::unique_ptr<Given<sk_tensor>>> tensors;
  std::unique_ptr<Lists> lists;  // Where the operation has any.
  int32_t asked = 0;             // What sk_call() is asked for.
  int32_t operation = 0;         // What they are of.
  bool none = false;

  const void* get() const { return none ? nullptr : bytes.data(); }
  void check(const char* name) const {
    for (const auto& each : tensors) each->check(name, false);
    if (lists) lists->check(name);
  }
};

// Made before there are threads: a fork while one of them makes it would leave its child waiting.
const std::vector<Operation>& all_operations() {
  static const std::vector<Operation> all = operations();
  return all;
}

Arguments arguments(Caller& c) {
  const std::vector<Operation>& all = all_operations();
  const Operation& operation = all[c.random.below(all.size())];
  Arguments made;
  auto& [args, tensors, lists, asked, of, none] = made;
  const auto put = [&]<typename T>(uint32_t offset, const T& value) {
    std::memcpy(args.data() + offset, static_cast<const void*>(&value), sizeof(T));
  };
  put(0, struct_size(c.random, operation.bytes));
  of = operation.id;
  const int32_t id = c.random.one_in(16) ? int32_t(c.random.number()) : operation.id;
  put(4, c.random.one_in(2) ? 0 : operation.id);
  const int32_t dtype = int32_t(1 + c.random.below(6));
  const int64_t rows = extent(c), cols = extent(c);
  for (const Field& field : operation.fields) {
    if (field.kind == "tensor") {
      if (c.random.one_in(12)) continue;  // Null.
      Guarded& memory = c.random.one_in(2) ? c.in : c.out;
      tensors.emplace_back(new Given<sk_tensor>(matrix(
          c, memory, c.random.one_in(3) ? extent(c) : rows, c.random.one_in(3) ? extent(c) : cols,
          c.random.one_in(12) ? int32_t(SK_F32) : dtype, c.random.one_in(2) ? 1 : 2)));
      put(field.offset, static_cast<const void*>(tensors.back()->get()));
    } else if (field.kind == "packed") {
      if (c.random.one_in(2)) put(field.offset, c.handle<sk_packed>(kPacked));
    } else if (field.kind == "length") {
      lists = std::make_unique<Lists>(c);
      put(field.offset, lists->length(c.random));
    } else if (field.kind == "list") {
      if (!lists) fail("a list has no length before it");
      put(field.offset, lists->add(c, c.random.one_in(12) ? int32_t(SK_F32) : dtype));
    } else if (field.kind == "double") {
      put(field.offset, c.random.one_in(4) ? c.random.number() : std::bit_cast<int64_t>(0.5));
    } else if (field.kind == "int32") {
      put(field.offset, int32_t(c.random.around(0, 4)));
    } else {
      put(field.offset, c.random.one_in(2) ? c.random.number() : int64_t(1));
    }
  }
  none = c.random.one_in(64);
  // A made-up number must not be another operation's, whose struct is longer, nor a tile's.
  const bool anothers = (id > 0 && id < 100) || (id >= 1000 && id < 1 << 16);
  asked = anothers ? operation.id : id;
  return made;
}

void call(Caller& c) {
  if (c.random.one_in(3)) return call_tile(c);
  const Arguments args = arguments(c);
  const Options options(c);
  c.check(sk_call(c.handle<sk_comm>(kComm), args.asked, args.get(), options.pointer));
  args.check("sk_call");
}

constexpr size_t kAliveMax = 6;  // Then creations free one first.

void free_one(Caller& c, sk_op* op) {
  const sk_status status = sk_op_free(op);
  if (status == SK_OK) c.pool.drop(kOp, op);
  c.check(status);
}

void op_create(Caller& c) {
  if (c.pool.count(kOp) >= kAliveMax)
    return free_one(c, static_cast<sk_op*>(c.pool.live(c.random, kOp).value));
  sk_op* made = nullptr;
  if (c.random.one_in(4)) {
    // On memory that is nobody's, so that any thread may run it as it is.
    static float vector[32] = {};
    sk_tensor tensor{sizeof(sk_tensor), SK_F32, vector, 1, 0, 0, 0, {32}, {1}};
    sk_allreduce_args args{};
    args.struct_size = sizeof args;
    args.in = args.out = &tensor;
    args.op = SK_MAX;
    const sk_status status = sk_op_create(c.handle<sk_comm>(kComm), SK_OP_ALLREDUCE, &args, &made);
    c.check(status);
    if (status == SK_OK) c.pool.add(kOp, {made, sizeof vector, sizeof vector});
    return;
  }
  const Arguments args = arguments(c);
  const sk_status status = sk_op_create(c.handle<sk_comm>(kComm), args.asked, args.get(),
                                        c.random.one_in(16) ? nullptr : &made);
  c.check(status);
  args.check("sk_op_create");
  if (status == SK_OK) c.pool.add(kOp, {made, 0, 0, args.operation});
}

// Without arguments it runs on the last ones' memory: only where that is nobody's.
void op_run(Caller& c) {
  const Handle op = c.pool.any(c.random, kOp);
  const Options options(c);
  auto* const handle = static_cast<sk_op*>(op.value);
  if (op.in_bytes != 0) return c.check(sk_op_run(handle, nullptr, options.pointer));
  Arguments args = arguments(c);
  args.none = false;
  // A number is no address: another operation's arguments say so, and are refused.
  if (args.operation != op.operation) std::memcpy(&args.bytes[4], &args.operation, 4);
  c.check(sk_op_run(handle, args.get(), options.pointer));
  args.check("sk_op_run");
}

void op_free(Caller& c) { free_one(c, c.handle<sk_op>(kOp)); }

// Its communicator is the context's, which frees it: it is no handle of the pool's, but calls of
// it come from any thread.
void comm_self(Caller& c) {
  sk_comm* self = nullptr;
  const sk_status status =
      sk_comm_self(c.handle<sk_context>(kContext), c.random.one_in(16) ? nullptr : &self);
  c.check(status);
  if (self == nullptr) return;
  const sk_status freed = sk_comm_free(self);
  if (freed == SK_OK) fail("sk_comm_free() freed what a context owns");
  c.check(sk_barrier(self, nullptr));
}

// Refused, mostly: the pool's contexts have communicators.
void set_interrupted(Caller& c) {
  constexpr sk_interrupted_fn kNever = [](void*) -> int32_t { return 0; };
  c.check(sk_context_set_interrupted(c.handle<sk_context>(kContext),
                                     c.random.one_in(2) ? nullptr : kNever, nullptr));
}

void op_describe(Caller& c) {
  constexpr const char* kNames[] = {nullptr, "allreduce", "", "no such", "rms\xff\n\"norm"};
  std::string room(c.random.below(300), '#');
  size_t size = 0;
  c.check(sk_op_describe(kNames[c.random.below(5)], room.data(), room.size(),
                         c.random.one_in(8) ? nullptr : &size));
}

}  // namespace

const std::vector<Function>& call_functions() {
  (void)all_operations();
  static const std::vector<Function> all = {
      {"sk_call", 80, true, call},
      {"sk_comm_self", 10, true, comm_self},
      {"sk_op_create", 40, true, op_create},
      {"sk_op_describe", 5, true, op_describe},
      {"sk_op_free", 10, true, op_free},
      {"sk_op_run", 60, true, op_run},
      {"sk_context_set_interrupted", 3, true, set_interrupted},
  };
  return all;
}

}  // namespace sk::fuzz_abi
