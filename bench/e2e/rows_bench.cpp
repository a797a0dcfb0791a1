// rmsnorm and its gradient beside copies of the same bytes by as many threads: how near rows come
// to what memory gives. Through the C ABI, on sk_comm_self().
//
// usage: rows_bench [--rounds N] [--workers N]
//
// One JSON line per candidate and size goes to stdout (nanoseconds per call, one figure a round), a
// table to stderr: ratios are the copy's time for the same bytes, over the candidate's.
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
#include "sk.h"

namespace {

struct FreeMemory {
  void operator()(void* p) const { free(p); }
};
using Floats = std::unique_ptr<float[], FreeMemory>;

Floats allocate(size_t count) {
  auto* p = static_cast<float*>(aligned_alloc(4096, (count * 4 + 4095) / 4096 * 4096));
  if (p == nullptr) {
    fprintf(stderr, "rows_bench: out of memory\n");
    exit(2);
  }
  for (size_t i = 0; i < count; ++i) p[i] = float(i % 251) * 0.01f - 1.0f;
  return Floats(p);
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

sk_tensor tensor(float* data, int64_t rows, int64_t cols) {
  sk_tensor t{};
  t.struct_size = sizeof t;
  t.dtype = SK_F32;
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
  std::vector<double> ns;
};

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

void run_size(sk_comm* self, int64_t rows, int64_t cols, int rounds, int workers) {
  const auto count = size_t(rows * cols);
  const Floats x = allocate(count), y = allocate(count), dy = allocate(count);
  const Floats w = allocate(size_t(cols)), dw = allocate(size_t(cols)),
               rstd = allocate(size_t(rows));
  sk_tensor tx = tensor(x.get(), rows, cols), ty = tensor(y.get(), rows, cols);
  sk_tensor tdy = tensor(dy.get(), rows, cols), tw = tensor(w.get(), 0, cols);
  sk_tensor tdw = tensor(dw.get(), 0, cols), trstd = tensor(rstd.get(), 0, rows);
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
    memcpy(y.get() + first, x.get() + first, (i + 1 == of ? count - first : each) * 4);
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
  const int calls = int(std::max<size_t>(1, (size_t(4) << 20) / (count * 4)));
  const int kinds = int(candidates.size());
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < 2 * kinds; ++i) {  // Forth and back.
      Candidate& c = candidates[size_t(i < kinds ? i : 2 * kinds - 1 - i)];
      if (&c == candidates.data()) team.wake();
      c.call();
      const double start = bench_now();
      for (int z = 0; z < calls; ++z) c.call();
      c.ns.push_back((bench_now() - start) / calls * 1e9);
      team.rest();
    }
  }
  const double copy = median(candidates[0].ns);
  for (const Candidate& c : candidates) {
    printf("{\"case\": \"%s\", \"rows\": %lld, \"cols\": %lld, \"workers\": %d, \"ns\": [", c.name,
           (long long)rows, (long long)cols, workers);
    for (size_t i = 0; i < c.ns.size(); ++i) printf("%s%.1f", i != 0 ? ", " : "", c.ns[i]);
    printf("]}\n");
    fprintf(stderr, "%6lld x %-6lld %-18s median %11.0f ns, %.2f of the copy's bandwidth\n",
            (long long)rows, (long long)cols, c.name, median(c.ns),
            copy * c.arrays / 2 / median(c.ns));
  }
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 15, workers = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--rounds") == 0) rounds = std::max(1, atoi(argv[i + 1]));
    if (strcmp(argv[i], "--workers") == 0) workers = atoi(argv[i + 1]);
  }
  sk_context* context = nullptr;
  sk_comm* self = nullptr;
  require(sk_init(nullptr, &context));
  require(sk_comm_self(context, &self));
  sk_comm_info info{};
  info.struct_size = sizeof info;
  require(sk_comm_query(self, &info));
  if (workers == 0) workers = info.workers;
  for (const int64_t cols : {1024, 4096, 16384}) {
    for (const int64_t bytes : {256 << 10, 4 << 20, 64 << 20}) {
      run_size(self, bytes / 4 / cols, cols, rounds, workers);
    }
  }
  return sk_finalize(context) == SK_OK ? 0 : 1;
}
