#include "tests/support/worlds.h"

#include <algorithm>
#include <cstring>

#include "lib/op/ops/memory.h"
#include "lib/plan/text.h"
#include "tests/support/op_words.h"

namespace sk::testing_support {
namespace {

int64_t decode(DType dtype, const std::vector<std::byte>& bytes, uint64_t index) {
  const std::byte* at = bytes.data() + index * dtype_bytes(dtype);
  const auto as = [&](auto value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::kF32:
      return int64_t(as(float()));
    case DType::kF64:
      return int64_t(as(double()));
    case DType::kBF16:
      return int64_t(bf16_to_f32(as(uint16_t())));
    case DType::kF16:
      return int64_t(f16_to_f32(as(uint16_t())));
    case DType::kI32:
      return as(int32_t());
    case DType::kI64:
      return as(int64_t());
  }
  return 0;
}

void encode(DType dtype, int64_t value, std::vector<std::byte>& bytes, uint64_t index) {
  std::byte* at = bytes.data() + index * dtype_bytes(dtype);
  const auto put = [&](auto typed) { std::memcpy(at, &typed, sizeof typed); };
  switch (dtype) {
    case DType::kF32:
      return put(float(value));
    case DType::kF64:
      return put(double(value));
    case DType::kBF16:
      return put(f32_to_bf16(float(value)));
    case DType::kF16:
      return put(f32_to_f16(float(value)));
    case DType::kI32:
      return put(int32_t(value));
    case DType::kI64:
      return put(value);
  }
}

int64_t random_value(const TextOp& op, uint32_t ranks, uint32_t rank, std::mt19937_64& random) {
  const bool reduces = op.kind == OpKind::kAllreduce || op.kind == OpKind::kReduceScatter;
  if (!is_float(op.dtype)) return int64_t(random());
  if (reduces && op.redop == RedOp::kProd) {
    return (random() % 2 ? 1 : -1) * (rank == 0 ? int64_t(1 + random() % 7) : 1);
  }
  const int64_t value = int64_t(random() % 9) - 4;
  return reduces && op.redop == RedOp::kAvg ? value * ranks : value;
}

int64_t join(RedOp op, int64_t a, int64_t b) {
  switch (op) {
    case RedOp::kSum:
    case RedOp::kAvg:
      return int64_t(uint64_t(a) + uint64_t(b));
    case RedOp::kProd:
      return int64_t(uint64_t(a) * uint64_t(b));
    case RedOp::kMin:
      return std::min(a, b);
    case RedOp::kMax:
      return std::max(a, b);
  }
  return 0;
}

const Buffer* find_operand(const Plan& plan, uint32_t rank, bool output) {
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.owner != rank || buffer.kind == BufferKind::kWorkspace || buffer.operand > 1)
      continue;
    if (buffer.kind == BufferKind::kInOut || (buffer.operand == 1) == output) return &buffer;
  }
  return nullptr;
}

class Oracle {
 public:
  Oracle(const Plan& plan, const World& world, uint32_t run)
      : plan_(plan),
        op_(text_op(plan.op)),
        ranks_(plan.target.world_size),
        world_(world),
        run_(run) {}

  std::string check(uint32_t rank) {
    const Buffer* out = find_operand(plan_, rank, true);
    if (out == nullptr) return "";
    const std::vector<std::byte>& found = world_.outputs[run_][rank][out->operand];
    std::vector<std::byte> must = found;  // Bytes that the op does not speak of stay as they are.
    if (is_product(plan_.op.schema())) {
      product(rank, must);
    } else {
      vector(rank, must);
    }
    if (must == found) return "";
    const auto at = std::mismatch(must.begin(), must.end(), found.begin()).first - must.begin();
    return fmt::format("run {}, rank {}, byte {} of {} differs", run_, rank, at, must.size());
  }

 private:
  // Element `index` of what `rank` has given; in place, where it lies in the one buffer.
  int64_t in(uint32_t rank, uint64_t index) const {
    const Buffer* buffer = find_operand(plan_, rank, false);
    if (op_.in_place && op_.kind == OpKind::kAllgather) index += rank * uint64_t(op_.count);
    return decode(op_.dtype, world_.inputs[run_][rank][buffer->operand], index);
  }

  int64_t joined(uint64_t index) const {
    int64_t sum = in(0, index);
    for (uint32_t rank = 1; rank < ranks_; ++rank) sum = join(op_.redop, sum, in(rank, index));
    return op_.redop == RedOp::kAvg ? sum / int64_t(ranks_) : sum;
  }

  void vector(uint32_t rank, std::vector<std::byte>& out) const {
    const uint64_t count = uint64_t(op_.count);
    switch (op_.kind) {
      case OpKind::kAllreduce:
        for (uint64_t i = 0; i < count; ++i) encode(op_.dtype, joined(i), out, i);
        break;
      case OpKind::kAllgather:
        for (uint64_t i = 0; i < count * ranks_; ++i) {
          encode(op_.dtype, in(uint32_t(i / count), i % count), out, i);
        }
        break;
      case OpKind::kReduceScatter:
        if (op_.in_place) out = world_.inputs[run_][rank][find_operand(plan_, rank, true)->operand];
        for (uint64_t i = 0; i < count; ++i) {
          encode(op_.dtype, joined(rank * count + i), out, op_.in_place ? rank * count + i : i);
        }
        break;
      case OpKind::kSendRecv:
        if (rank != uint32_t(op_.peer)) break;
        [[fallthrough]];
      case OpKind::kBroadcast:
        for (uint64_t i = 0; i < count; ++i) {
          encode(op_.dtype, in(uint32_t(op_.root), i), out, i);
        }
        break;
      default:
        break;
    }
  }

  // Row after row. Whole numbers, whose sums are whole numbers too: in doubles they are exact.
  using Matrix = std::vector<double>;
  Matrix a(uint32_t rank) const {
    Matrix out;
    for (int64_t row = 0; row < op_.m; ++row) {
      for (int64_t i = 0; i < op_.k; ++i) {
        const int64_t at = op_.transpose_a ? i * op_.lda + row : row * op_.lda + i;
        out.push_back(double(decode(op_.dtype, world_.inputs[run_][rank][0], uint64_t(at))));
      }
    }
    return out;
  }
  Matrix b(uint32_t rank) const {
    Matrix out;
    for (int64_t i = 0; i < op_.k; ++i) {
      for (int64_t column = 0; column < op_.n; ++column) {
        const int64_t at = !op_.pack_b       ? column * op_.k + i
                           : op_.transpose_b ? column * op_.ldb + i
                                             : i * op_.ldb + column;
        out.push_back(double(decode(op_.dtype, world_.inputs[run_][rank][2], uint64_t(at))));
      }
    }
    return out;
  }
  void add_product(const Matrix& left, const Matrix& right, double* sums) const {
    for (int64_t row = 0; row < op_.m; ++row, sums += op_.n) {
      for (int64_t i = 0; i < op_.k; ++i) {
        const double factor = left[size_t(row * op_.k + i)];
        const double* from = right.data() + i * op_.n;
        for (int64_t column = 0; column < op_.n; ++column) sums[column] += factor * from[column];
      }
    }
  }
  void product(uint32_t rank, std::vector<std::byte>& out) {
    const bool gathers = op_.kind == OpKind::kAllgatherGemm;
    const size_t size = size_t(op_.m * op_.n);
    // A sum over all ranks is the same at each.
    if (gathers || sums_.empty()) {
      sums_.assign((gathers ? ranks_ : 1) * size, 0);
      const Matrix own = b(rank);
      for (uint32_t each = 0; each < ranks_; ++each)
        add_product(a(each), gathers ? own : b(each), sums_.data() + (gathers ? each * size : 0));
    }
    for (size_t i = 0; i < sums_.size(); ++i) {
      const uint64_t row = i / uint64_t(op_.n), column = i % uint64_t(op_.n);
      encode(op_.out_dtype, int64_t(sums_[i]), out, row * uint64_t(op_.ldc) + column);
    }
  }

  const Plan& plan_;
  const TextOp op_;
  uint32_t ranks_;
  const World& world_;
  uint32_t run_;
  Matrix sums_;  // Of the product.
};

template <typename T>
T pick(std::mt19937_64& random, std::initializer_list<T> values) {
  return values.begin()[random() % values.size()];
}

void random_gemm(TextOp& op, Case& c, std::mt19937_64& random) {
  op.dtype = pick(random, {DType::kF32, DType::kF64, DType::kBF16, DType::kF16});
  op.out_dtype = random() % 2 ? op.dtype : DType::kF32;
  op.m = 1 + int64_t(random() % 40);
  op.n = 1 + int64_t(random() % 40);
  op.k = int64_t(random() % 13);
  if (random() % 32 == 0) (random() % 2 ? op.m : op.n) = 0;
  op.transpose_a = random() % 2;
  op.pack_b = random() % 2;
  op.transpose_b = op.pack_b && random() % 2;
  op.lda = (op.transpose_a ? op.m : op.k) + int64_t(random() % 2 * 3);
  op.ldb = op.pack_b ? (op.transpose_b ? op.k : op.n) + int64_t(random() % 2) : 0;
  op.ldc = op.n + int64_t(random() % 2 * 5);
  c.target.tile_m = pick(random, {4u, 8u, 16u, 64u});
  c.target.tile_n = pick(random, {8u, 16u, 64u});
  const uint64_t column = uint64_t(op.k) * dtype_bytes(op.dtype);
  const uint64_t pitch = random() % 2 ? column : align_up(column, 16);
  c.target.packed_bytes = uint64_t(op.n) * (op.pack_b ? pitch : column);
  if (op.k == 0) c.target.packed_bytes = 64;  // What is packed has some bytes all the same.
  if (op.pack_b && random() % 2) c.target.packed_pitch = pitch;
  if (op.pack_b) c.target.raw_b = random() % 2;
  c.target.band_rows = uint32_t(random() % 4);
}

// Where nothing is mapped: a world in several hosts, in most cases one behind the other.
void random_hosts(Case& c, std::mt19937_64& random) {
  if (c.target.mapped || random() % 2) return;
  const uint32_t count = uint32_t(2 + random() % 4);
  const bool in_order = random() % 4 != 0;
  std::vector<uint32_t> least(count, UINT32_MAX);
  for (uint32_t rank = 0; rank < c.target.world_size; ++rank) {
    uint32_t& host = least[in_order ? rank * count / c.target.world_size : random() % count];
    host = std::min(host, rank);
    c.target.host_of.push_back(host);
  }
  if (std::ranges::count(c.target.host_of, 0u) == c.target.world_size) c.target.host_of.clear();
}

}  // namespace

Case random_case(std::mt19937_64& random, uint32_t ranks_max) {
  Case c;
  TextOp op;
  std::vector<OpKind> kinds;
  for (const Schema* each : all_schemas()) {
    if (each->scope != Scope::kLocal && !is_of_memory(*each)) kinds.push_back(each->id);
  }
  op.kind = kinds[random() % kinds.size()];
  op.symmetric_in = random() % 2;
  op.symmetric_out = random() % 2;
  const bool pair = op.kind == OpKind::kSendRecv;
  c.target.world_size = std::max(pair ? 2u : 1u, uint32_t(1 + random() % ranks_max));
  c.target.mapped = random() % 2;
  c.target.workers = uint32_t(1 + random() % 3);
  c.target.chunk_bytes = 64u << random() % 5;
  c.target.slot_count = uint32_t(1 + random() % 4);
  c.target.one_shot_bytes = pick(random, {0u, 256u, 4096u});
  c.target.one_shot_symmetric_bytes = pick(random, {0u, 0u, 256u});
  c.target.stream_bytes = pick(random, {512u, 1u << 20});
  c.target.queue_bytes_min = pick(random, {64u, 64u, 512u, 128u << 10});
  c.target.turn_bytes = pick(random, {0u, 64u, 192u});
  if (random() % 4 == 0) c.target.edge_signals_max = pick(random, {4u, 8u, 30u});
  if (op.kind == OpKind::kBarrier) {
    random_hosts(c, random);
    return c;
  }
  // A GEMM's tiles are put in slots of 16 KB or more: in thousands of puts at the narrowest.
  const bool multiplies = is_product(*schema_of(op.kind));
  const uint64_t narrow = multiplies ? 1000 : 8;
  c.target.put_bytes_max = pick<uint64_t>(random, {UINT64_MAX, narrow, 5 * narrow, 25 * narrow});
  if (multiplies) {
    random_gemm(op, c, random);
    c.op = op_desc(op);
    random_hosts(c, random);
    return c;
  }
  op.dtype = op.out_dtype = DType(SK_F32 + random() % 6);
  op.count = int64_t(random() % pick(random, {3u, 40u, 700u}));
  const Schema& schema = *schema_of(op.kind);
  const auto has_home = [](const OperandSchema& each) { return each.alias[0] != '\0'; };
  const bool has_place = std::ranges::any_of(schema.operands, has_home);
  op.in_place = random() % 3 == 0 && has_place;
  if (schema.field("op")) {
    op.redop = RedOp(SK_SUM + random() % (is_float(op.dtype) ? 5 : 4));
  }
  if (schema.field("root")) {
    op.root = int32_t(random() % c.target.world_size);
  }
  if (pair) {
    const uint32_t step = uint32_t(1 + random() % (c.target.world_size - 1));
    op.peer = int32_t((uint32_t(op.root) + step) % c.target.world_size);
  }
  c.op = op_desc(op);
  random_hosts(c, random);
  return c;
}

std::string describe(const Case& c) {
  const std::string text = dump(Plan{.op = c.op, .target = c.target, .buffers = {}, .ranks = {}});
  return text.substr(text.find('\n') + 1);
}

World random_world(const Plan& plan, uint32_t runs, std::mt19937_64& random) {
  World world;
  const TextOp op = text_op(plan.op);
  world.inputs.assign(runs, std::vector<OperandBytes>(plan.target.world_size));
  for (std::vector<OperandBytes>& ranks : world.inputs) {
    for (const Buffer& buffer : plan.buffers) {
      if (buffer.kind != BufferKind::kInput && buffer.kind != BufferKind::kInOut) continue;
      std::vector<std::byte>& bytes = ranks[buffer.owner][buffer.operand];
      bytes.resize(buffer.bytes);
      for (uint64_t i = 0; i < buffer.bytes / dtype_bytes(op.dtype); ++i) {
        encode(op.dtype, random_value(op, plan.target.world_size, buffer.owner, random), bytes, i);
      }
    }
  }
  return world;
}

std::string first_difference(const Plan& plan, const World& world) {
  for (uint32_t run = 0; run < world.inputs.size(); ++run) {
    Oracle oracle(plan, world, run);
    for (uint32_t rank = 0; rank < plan.target.world_size; ++rank) {
      const std::string difference = oracle.check(rank);
      if (!difference.empty()) return difference;
    }
  }
  return "";
}

}  // namespace sk::testing_support
