#include "tests/multi/op_case.h"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sstream>
#include <thread>
#include <utility>

#include "tests/multi/call_by_number.h"

namespace sk::testing_ops {
namespace {

constexpr char kPoison = char(0xa5);

// How a rank writes and reads what its calls work on.
class Hand {
 public:
  Hand(const Gpu* gpu, void* stream) : gpu_(gpu), stream_(stream) {}
  void write(void* to, const void* from, size_t bytes) const {
    if (gpu_ != nullptr && gpu_->upload) return gpu_->upload(to, from, bytes, stream_);
    std::memcpy(to, from, bytes);
  }
  void poison(void* to, size_t bytes) const {
    if (gpu_ == nullptr || !gpu_->upload) return void(std::memset(to, kPoison, bytes));
    gpu_->upload(to, std::vector<char>(bytes, kPoison).data(), bytes, stream_);
  }
  // What lies there, in `room` if it lies elsewhere.
  const char* read(const char* from, size_t bytes, std::vector<char>& room) const {
    if (gpu_ == nullptr || !gpu_->download) return from;
    room.resize(bytes);
    gpu_->download(room.data(), from, bytes, stream_);
    return room.data();
  }

 private:
  const Gpu* gpu_;
  void* stream_;
};

// One rank's memory for one case: symmetric or not, poisoned.
class Memory {
 public:
  Memory(sk_comm* comm, const Gpu* gpu, const Hand& hand, size_t bytes, bool symmetric)
      : comm_(comm), gpu_(gpu), bytes_(std::max<size_t>(bytes, 1)) {
    void* data = nullptr;
    if (!symmetric && gpu != nullptr) {
      taken_ = static_cast<char*>(gpu->take(bytes_));
    } else if (!symmetric) {
      own_.resize(bytes_);
    } else if (sk_alloc(comm, bytes_, &data) != SK_OK) {
      wrong_ = sk_last_error();
      return;
    }
    symmetric_ = static_cast<char*>(data);
    hand.poison(this->data(), bytes_);
  }
  ~Memory() {
    (void)release();
    if (taken_ != nullptr) gpu_->give_back(taken_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  char* data() {
    if (taken_ != nullptr) return taken_;
    return symmetric_ != nullptr ? symmetric_ : own_.data();
  }
  const std::string& wrong() const { return wrong_; }
  std::string release() {
    if (symmetric_ == nullptr) return "";
    return sk_free(comm_, std::exchange(symmetric_, nullptr)) == SK_OK ? "" : sk_last_error();
  }

 private:
  sk_comm* comm_;
  const Gpu* gpu_;
  size_t bytes_;
  char* symmetric_ = nullptr;
  char* taken_ = nullptr;
  std::vector<char> own_;
  std::string wrong_;
};

// How a rank calls: where, and as whom.
struct Caller {
  sk_comm* comm;
  int rank, ranks;
  sk_run_options options;
  const sk_run_options* given;  // Null on the CPU, where the library then remembers calls.
  bool by_number = false;       // Through sk_call(): the same call as with the others' functions.
};

sk_tensor tensor(const Caller& caller, void* data, int32_t dtype, int64_t rows, int64_t cols) {
  return rows_of(caller.given, data, dtype, rows, cols);
}

sk_status call_gemm(const Caller& caller, const Case& c, void* in, void* weights, void* out) {
  const uint32_t a_flag = c.transpose_a ? uint32_t(SK_GEMM_TRANSPOSE_A) : 0u;
  const uint32_t b_flag = c.transpose_b ? uint32_t(SK_GEMM_TRANSPOSE_B) : 0u;
  sk_tensor a =
      c.transpose_a ? tensor(caller, in, c.dtype, c.k, c.m) : tensor(caller, in, c.dtype, c.m, c.k);
  sk_tensor b = c.transpose_b ? tensor(caller, weights, c.dtype, c.n, c.k)
                              : tensor(caller, weights, c.dtype, c.k, c.n);
  const bool gathers = c.kind == SK_OP_ALLGATHER_GEMM;
  sk_tensor out_c = tensor(caller, out, c.out_dtype, out_count(c, caller.ranks) / c.n, c.n);
  const auto call = gathers ? sk_allgather_gemm : sk_allreduce_gemm;
  if (!c.packed) return call(caller.comm, &a, &b, nullptr, &out_c, a_flag | b_flag, caller.given);
  // On a GPU it reads B on the default stream, which waits for no other.
  sk_status status = sk_comm_synchronize(caller.comm, caller.given);
  if (status != SK_OK) return status;
  sk_packed* packed = nullptr;
  status = sk_pack(caller.comm, &b, b_flag, &packed);
  if (status != SK_OK) return status;
  status = call(caller.comm, &a, nullptr, packed, &out_c, a_flag, caller.given);
  const sk_status freed = sk_packed_free(packed);
  return status != SK_OK ? status : freed;
}

sk_status call(const Caller& caller, const Case& c, void* in, void* weights, void* out) {
  sk_comm* const comm = caller.comm;
  switch (c.kind) {
    case SK_OP_BARRIER:
      return sk_barrier(comm, caller.given);
    case SK_OP_ALLREDUCE:
      return sk_allreduce(comm, in, out, c.count, c.dtype, c.op, caller.given);
    case SK_OP_ALLGATHER:
      return sk_allgather(comm, in, out, c.count, c.dtype, caller.given);
    case SK_OP_REDUCE_SCATTER:
      return sk_reduce_scatter(comm, in, out, c.count, c.dtype, c.op, caller.given);
    case SK_OP_BROADCAST:
      return sk_broadcast(comm, in, out, c.count, c.dtype, c.root, caller.given);
    case SK_OP_SEND_RECV:
      if (caller.rank == c.root) return sk_send(comm, in, c.count, c.dtype, c.peer, caller.given);
      if (caller.rank == c.peer) return sk_recv(comm, out, c.count, c.dtype, c.root, caller.given);
      return SK_OK;
    default:
      return call_gemm(caller, c, in, weights, out);
  }
}

// Where the input lies in the output's memory, or the other way round, in an in-place call.
void place_in_place(const Case& c, int rank, char*& from, char*& to) {
  const int64_t block = c.count * int64_t(size_of(c.dtype));
  if (c.kind == SK_OP_REDUCE_SCATTER) {
    to = from + block * rank;
  } else {
    from = c.kind == SK_OP_ALLGATHER ? to + block * rank : to;
  }
}

// For longer than the call's own waits, which say who waited for whom when they run out.
sk_status synchronize(const Caller& caller, const Row& row) {
  if (caller.given == nullptr) return sk_comm_synchronize(caller.comm, nullptr);
  sk_run_options options = *caller.given;
  options.timeout_ms = 2 * row.timeout_ms;
  return sk_comm_synchronize(caller.comm, &options);
}

// A barrier is right if everybody had come to it when it let this rank go.
std::string run_barrier(const Caller& caller, const Row& row, Arrivals& arrivals) {
  const int rank = caller.rank;
  const uint64_t mine = arrivals.came[size_t(rank)].fetch_add(1) + 1;
  if (sk_barrier(caller.comm, caller.given) != SK_OK) return sk_last_error();
  for (int peer = 0; peer < row.ranks; ++peer) {
    if (arrivals.came[size_t(peer)].load() >= mine) continue;
    return "the barrier let rank " + std::to_string(rank) + " go before rank " +
           std::to_string(peer) + " had come";
  }
  return "";
}

std::string run_case(const Caller& caller, const Case& c, const Row& row, Arrivals& arrivals) {
  sk_comm* const comm = caller.comm;
  const int rank = caller.rank;
  if (c.kind == SK_OP_BARRIER) return run_barrier(caller, row, arrivals);
  // Before memory is given back, which all ranks do together.
  const auto fail = [&](std::string wrong) {
    (void)sk_comm_abort(comm, "");
    return wrong;
  };
  const auto inputs = make_inputs(c, row.ranks, false), weights = make_inputs(c, row.ranks, true);
  const size_t in_bytes = inputs[0].size() - 1;
  const size_t out_bytes = size_t(out_count(c, row.ranks)) * size_of(c.out_dtype);
  const Hand hand(row.gpu, caller.options.stream);
  Memory in(comm, row.gpu, hand, in_bytes, c.symmetric);
  Memory out(comm, row.gpu, hand, out_bytes, c.symmetric);
  Memory b(comm, row.gpu, hand, weights[size_t(rank)].size(), /*symmetric=*/false);
  if (!in.wrong().empty() || !out.wrong().empty()) return fail(in.wrong() + out.wrong());
  char* from = in.data();
  char* to = out.data();
  if (c.in_place) place_in_place(c, rank, from, to);
  hand.write(from, inputs[size_t(rank)].data(), in_bytes);
  hand.write(b.data(), weights[size_t(rank)].data(), weights[size_t(rank)].size());
  const sk_status called = caller.by_number ? call_by_number(comm, rank, row.ranks, c,
                                                             {from, b.data(), to}, caller.given)
                                            : call(caller, c, from, b.data(), to);
  if (called != SK_OK) return fail(sk_last_error());
  if (synchronize(caller, row) != SK_OK) return fail(sk_last_error());
  // The call is over: its inputs are ours.
  hand.poison(b.data(), weights[size_t(rank)].size());
  if (!c.in_place) hand.poison(from, in_bytes);
  const std::vector<double> want = expected(c, rank, inputs, weights);
  std::vector<char> room;
  const char* found = hand.read(to, want.size() * size_of(c.out_dtype), room);
  std::string wrong = first_difference(c, found, want);
  if (!wrong.empty()) return fail(std::move(wrong));
  hand.poison(out.data(), out_bytes);
  wrong = in.release();
  return wrong + out.release();
}

// The calling thread on some of the CPUs that it may run on, by seed.
void pin_to_some(std::mt19937_64& random) {
  cpu_set_t may, some;
  if (sched_getaffinity(0, sizeof may, &may) != 0) return;
  do {
    CPU_ZERO(&some);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &may) && random() % 2 == 0) CPU_SET(cpu, &some);
    }
  } while (CPU_COUNT(&some) == 0);
  (void)sched_setaffinity(0, sizeof some, &some);
}

// Makes this rank unlike the others. The instruction set is the process's, and read once.
void make_uneven(const Row& row, int rank, sk_comm_config& config) {
  const char* number = std::getenv("RANK");
  const bool process = rank == kFromEnvironment;
  const int me = process && number != nullptr ? std::atoi(number) : std::max(rank, 0);
  std::mt19937_64 random(row.seed * kRanksMax + uint64_t(me) + 1);
  config.workers = std::array{0, 1, 2, 3, 5}[random() % 5];
  config.symmetric_bytes_max >>= random() % 2;
  if (random() % 8 == 0) config.flags |= SK_COMM_PUT_ONLY;
  pin_to_some(random);
  if (!process) return;
  const char* isa = std::array{"portable", "avx2", "avx512", "avx512_bf16", "amx"}[random() % 5];
  (void)setenv("SK_CPU_ISA", isa, 1);
}

Case case_of_kind(const Row& row, std::mt19937_64& random, int32_t kind) {
  for (;;) {
    const Case c = random_case(random, row.ranks, row.large);
    if (c.kind == kind) return c;
  }
}

// What a GPU has not is left out.
Case case_for(const Row& row, std::mt19937_64& random, int turn) {
  if (row.draw) return row.draw(random, turn);
  if (row.uneven && !row.large) {
    const std::array kinds = {SK_OP_ALLREDUCE,      SK_OP_ALLREDUCE_GEMM, SK_OP_ALLGATHER,
                              SK_OP_REDUCE_SCATTER, SK_OP_BROADCAST,      SK_OP_SEND_RECV,
                              SK_OP_BARRIER,        SK_OP_ALLGATHER_GEMM};
    return case_of_kind(row, random, kinds[size_t(turn) % kinds.size()]);
  }
  Case c = random_case(random, row.ranks, row.large);
  if (row.gpu == nullptr) return c;
  while (multiplies(c) && c.dtype == SK_F64) c = random_case(random, row.ranks, row.large);
  return c;
}

// Runs the row's cases; "" or the first thing wrong.
std::string run_cases(sk_comm* comm, const Row& row, Arrivals& arrivals, const Beside& beside) {
  sk_comm_info info{};
  info.struct_size = sizeof(info);
  if (sk_comm_query(comm, &info) != SK_OK) return sk_last_error();
  Caller caller{comm, info.rank, info.world_size, {}, nullptr};
  if (row.gpu != nullptr) {
    caller.options.struct_size = sizeof caller.options;
    caller.options.device_type = SK_DEVICE_CUDA;
    caller.options.device_id = row.gpu->id;
    caller.options.stream = row.gpu->stream(info.rank);
    caller.given = &caller.options;
  }
  std::mt19937_64 random(row.seed);  // The same cases on every rank.
  std::mt19937 pace{uint32_t(row.seed * kRanksMax + uint64_t(info.rank))};
  for (int i = 0; i < row.cases; ++i) {
    const Case c = case_for(row, random, i);
    for (uint32_t turns = pace() % 4 == 0 ? pace() % 200 : 0; turns > 0; --turns) sched_yield();
    caller.by_number = pace() % 2 == 0;
    std::string wrong = run_case(caller, c, row, arrivals);
    if (wrong.empty() && info.rank == 0 && beside) wrong = beside(comm, c);
    if (wrong.empty()) continue;
    std::ostringstream where;
    where << "rank " << info.rank << " of " << row.ranks << ", case " << i << ", " << describe(c);
    return where.str() + ": " + wrong;
  }
  return "";
}

}  // namespace

uint64_t base_seed() {
  const char* given = std::getenv("SK_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device{}();
}

std::string describe(const Case& c) {
  std::ostringstream text;
  text << "kind " << c.kind << " dtype " << c.dtype << " to " << c.out_dtype << " op " << c.op
       << " root " << c.root << " peer " << c.peer << " count " << c.count << " mnk " << c.m << ","
       << c.n << "," << c.k << " symmetric " << c.symmetric << " in_place " << c.in_place
       << " packed " << c.packed << " ta " << c.transpose_a << " tb " << c.transpose_b
       << " any_bits " << c.any_bits;
  return text.str();
}

std::vector<std::vector<char>> make_inputs(const Case& c, int ranks, bool weights) {
  std::vector<std::vector<char>> all;
  for (int rank = 0; rank < ranks; ++rank) {
    const int64_t count = weights ? c.k * c.n : in_count(c, ranks);
    all.emplace_back(size_t(count) * size_of(c.dtype) + 1);
    const uint64_t seed = c.seed * 64 + uint64_t(rank) * 2 + weights;
    if (c.any_bits) {
      fill_any_bits(all.back().data(), count, c.dtype, seed);
    } else {
      fill(all.back().data(), count, c.dtype, c.op, seed);
    }
  }
  return all;
}

std::string first_difference(const Case& c, const char* out, const std::vector<double>& want) {
  for (size_t i = 0; i < want.size(); ++i) {
    const double found = load(out, int64_t(i), c.out_dtype);
    // As bits: minus zero is another result. But one NaN is as good as another.
    if (std::bit_cast<uint64_t>(found) == std::bit_cast<uint64_t>(want[i])) continue;
    if (std::isnan(found) && std::isnan(want[i])) continue;
    std::ostringstream text;
    text.precision(17);
    text << "element " << i << " of " << want.size() << " is " << found << ", not " << want[i];
    return text.str();
  }
  return "";
}

std::string run_row(sk_context* context, const Row& row, int rank, Arrivals& arrivals,
                    const Beside& beside) {
  sk_comm_config config{};
  config.struct_size = sizeof(config);
  config.bootstrap = SK_BOOTSTRAP_ENV;
  if (rank != kFromEnvironment) {
    config.bootstrap = SK_BOOTSTRAP_THREADS;
    config.rank = rank;
    config.world_size = row.ranks;
  }
  config.flags = row.flags;
  config.workers = row.workers;
  config.timeout_ms = row.timeout_ms;
  config.symmetric_bytes_max = 256 << 20;
  config.device_type = row.gpu != nullptr ? SK_DEVICE_CUDA : SK_DEVICE_CPU;
  config.device_id = row.gpu != nullptr ? row.gpu->id : 0;
  if (row.uneven) make_uneven(row, rank, config);
  sk_comm* comm = nullptr;
  if (sk_comm_create(context, &config, &comm) != SK_OK) return sk_last_error();
  std::string wrong = run_cases(comm, row, arrivals, beside);
  if (!wrong.empty()) (void)sk_comm_abort(comm, "");
  if (sk_comm_free(comm) != SK_OK && wrong.empty()) wrong = sk_last_error();
  return wrong;
}

std::string run_threads(const Row& row, const Beside& beside) {
  sk_context* context = nullptr;
  if (sk_init(nullptr, &context) != SK_OK) return sk_last_error();
  Arrivals arrivals;
  std::mutex mutex;
  std::string wrong, told;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < row.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const std::string end = run_row(context, row, rank, arrivals, beside);
      const std::lock_guard<std::mutex> lock(mutex);
      if (!end.empty()) (end.find("has aborted") != std::string::npos ? told : wrong) += end + "\n";
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (sk_finalize(context) != SK_OK) wrong += sk_last_error();
  return wrong.empty() ? told : wrong;
}

}  // namespace sk::testing_ops
