// rmsnorm and its gradient beside copies of the same bytes by as many threads: how near rows come
// to what memory gives. Through the C ABI, on sk_comm_self().
//
// usage: rows_bench [--rounds N] [--workers N] [--mib N]
//
// Per type, size and round, and candidate, a JSON line goes to stdout (microseconds per call, of
// both visits; looks at the cores around the round), a table to stderr: ratios are the copy's time
// for the same bytes, over the candidate's. `--mib`: of x, that size alone.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/e2e/harness.h"
#include "bench/e2e/looks.h"
#include "sk.h"

namespace {

struct FreeMemory {
  void operator()(void* p) const { free(p); }
};
using Memory = std::unique_ptr<char[], FreeMemory>;

// Elements of f32, or of bf16, that are small and not alike.
Memory allocate(size_t count, bool bf16 = false) {
  const size_t bytes = count * (bf16 ? 2 : 4);
  auto* p = static_cast<char*>(aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
  if (p == nullptr) {
    fprintf(stderr, "rows_bench: out of memory\n");
    exit(2);
  }
  for (size_t i = 0; i < count; ++i) {
    const float value = float(i % 251) * 0.01f - 1.0f;
    uint32_t bits;
    memcpy(&bits, &value, 4);
    const auto half = uint16_t(bits >> 16);
    if (bf16) {
      memcpy(p + 2 * i, &half, 2);
    } else {
      memcpy(p + 4 * i, &value, 4);
    }
  }
  return Memory(p);
}

void require(sk_status status) {
  if (status == SK_OK) return;
  fprintf(stderr, "rows_bench: %s\n", sk_last_error());
  exit(2);
}

// Threads that wait for work as a parallel program's do, spinning, from wake() to rest(): beyond
// that they would take the cores of who is measured next.
class Team {
 public:
  explicit Team(int count) : count_(count) {
    for (int i = 1; i < count; ++i) {
      threads_.emplace_back([this, i] {
        for (uint64_t seen = 0;;) {
          while (turn_.load(std::memory_order_acquire) == seen) {
            if (!awake_.load(std::memory_order_relaxed)) awake_.wait(false);
            bench_pause();
          }
          ++seen;
          if (body_ == nullptr) return;
          (*body_)(i, count_);
          done_.fetch_add(1, std::memory_order_release);
        }
      });
    }
  }
  ~Team() {
    body_ = nullptr;
    turn_.fetch_add(1, std::memory_order_release);
    wake();
    for (std::thread& thread : threads_) thread.join();
  }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  void wake() {
    awake_.store(true);
    awake_.notify_all();
  }
  void rest() { awake_.store(false); }

  void run(const std::function<void(int, int)>& body) {
    body_ = &body;
    done_.store(1, std::memory_order_relaxed);
    turn_.fetch_add(1, std::memory_order_release);
    body(0, count_);
    while (done_.load(std::memory_order_acquire) != count_) bench_pause();
  }

 private:
  int count_;
  const std::function<void(int, int)>* body_ = nullptr;
  std::atomic<uint64_t> turn_{0};
  std::atomic<bool> awake_{false};
  std::atomic<int> done_{0};
  std::vector<std::thread> threads_;
};

sk_tensor tensor(char* data, int64_t rows, int64_t cols, bool bf16 = false) {
  sk_tensor t{};
  t.struct_size = sizeof t;
  t.dtype = bf16 ? SK_BF16 : SK_F32;
  t.data = data;
  t.ndim = rows == 0 ? 1 : 2;
  t.shape[0] = rows == 0 ? cols : rows;
  t.shape[1] = t.strides[0] = cols;
  t.strides[1] = 1;
  if (rows == 0) t.strides[0] = 1;
  return t;
}

struct Candidate {
  const char* name;
  double arrays;  // That it reads or writes, once each.
  std::function<void()> call;
  std::vector<double> us;
};

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

void run_size(sk_comm* self, sk_bench::Looks& looks, bool bf16, int64_t rows, int64_t cols,
              int rounds, int workers) {
  const auto count = size_t(rows * cols);
  const size_t element = bf16 ? 2 : 4;
  const Memory x = allocate(count, bf16), y = allocate(count, bf16), dy = allocate(count, bf16);
  const Memory w = allocate(size_t(cols), bf16), dw = allocate(size_t(cols), bf16);
  const Memory rstd = allocate(size_t(rows));
  sk_tensor tx = tensor(x.get(), rows, cols, bf16), ty = tensor(y.get(), rows, cols, bf16);
  sk_tensor tdy = tensor(dy.get(), rows, cols, bf16), tw = tensor(w.get(), 0, cols, bf16);
  sk_tensor tdw = tensor(dw.get(), 0, cols, bf16), trstd = tensor(rstd.get(), 0, rows);
  sk_rmsnorm_args forward{};
  forward.struct_size = sizeof forward;
  forward.x = &tx;
  forward.y = &ty;
  forward.weight = &tw;
  forward.eps = 1e-5;
  sk_rmsnorm_args kept = forward;
  kept.rstd = &trstd;
  sk_rmsnorm_backward_args backward{};
  backward.struct_size = sizeof backward;
  backward.x = &tx;
  backward.dy = &tdy;
  backward.rstd = &trstd;
  backward.dx = &ty;
  backward.weight = &tw;
  sk_rmsnorm_backward_args both = backward;
  both.dweight = &tdw;

  Team team(workers);
  const std::function<void(int, int)> share = [&](int i, int of) {
    const size_t each = count / size_t(of), first = each * size_t(i);
    memcpy(y.get() + first * element, x.get() + first * element,
           (i + 1 == of ? count - first : each) * element);
  };
  std::vector<Candidate> candidates;
  candidates.push_back({"copy", 2, [&] { team.run(share); }, {}});
  candidates.push_back({"forward", 2, [&] { require(sk_rmsnorm(self, &forward, nullptr)); }, {}});
  candidates.push_back(
      {"forward, rstd", 2, [&] { require(sk_rmsnorm(self, &kept, nullptr)); }, {}});
  candidates.push_back(
      {"backward", 3, [&] { require(sk_rmsnorm_backward(self, &backward, nullptr)); }, {}});
  candidates.push_back(
      {"backward, dweight", 3, [&] { require(sk_rmsnorm_backward(self, &both, nullptr)); }, {}});
  const int calls = int(std::max<size_t>(1, (size_t(4) << 20) / (count * element)));
  const int kinds = int(candidates.size());
  char label[64];
  snprintf(label, sizeof label, "%s %lldx%lld", bf16 ? "bf16" : "f32", (long long)rows,
           (long long)cols);
  for (int round = 0; round < rounds; ++round) {
    const bench_place before = looks.look();
    for (int i = 0; i < 2 * kinds; ++i) {  // Forth and back.
      Candidate& c = candidates[size_t(i < kinds ? i : 2 * kinds - 1 - i)];
      if (&c == candidates.data()) team.wake();
      c.call();
      const double start = bench_now();
      for (int z = 0; z < calls; ++z) c.call();
      c.us.push_back((bench_now() - start) / calls * 1e6);
      team.rest();
    }
    const std::string place = sk_bench::Looks::field(before, looks.look());
    for (const Candidate& c : candidates) {
      printf("{\"case\": \"%s %s\", \"workers\": %d, %s\"us\": [%.2f, %.2f]}\n", label, c.name,
             workers, place.c_str(), c.us[c.us.size() - 2], c.us.back());
    }
    fflush(stdout);
  }
  const double copy = median(candidates[0].us);
  for (const Candidate& c : candidates) {
    fprintf(stderr, "%-18s %-18s median %11.2f us, %.2f of the copy's bandwidth\n", label, c.name,
            median(c.us), copy * c.arrays / 2 / median(c.us));
  }
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 15, workers = 0;
  int64_t mib = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--rounds") == 0) rounds = std::max(1, atoi(argv[i + 1]));
    if (strcmp(argv[i], "--workers") == 0) workers = atoi(argv[i + 1]);
    if (strcmp(argv[i], "--mib") == 0) mib = std::max(1, atoi(argv[i + 1]));
  }
  sk_context* context = nullptr;
  sk_comm* self = nullptr;
  require(sk_init(nullptr, &context));
  require(sk_comm_self(context, &self));
  sk_comm_info info{};
  info.struct_size = sizeof info;
  require(sk_comm_query(self, &info));
  if (workers == 0) workers = info.workers;
  sk_bench::Looks looks;
  std::vector<int64_t> sizes = {256 << 10, 4 << 20, 64 << 20};
  if (mib > 0) sizes = {mib << 20};
  for (const bool bf16 : {false, true}) {
    for (const int64_t cols : {1024, 4096, 16384}) {
      for (const int64_t bytes : sizes)
        run_size(self, looks, bf16, bytes / (bf16 ? 2 : 4) / cols, cols, rounds, workers);
    }
  }
  return sk_finalize(context) == SK_OK ? 0 : 1;
}
