// One core's matrix product: libsk's tiles beside peers' libraries, call by call in one process.
//
// usage: tile_gemm_bench [--dtype f32|bf16] [--shapes MxNxK,...] [--rounds N] [--sample-ms T]
// [--sets N]
//                   [--core C] [--peer NAME=SHIM.so]...
//
// A shim is a shared object with the functions of bench/peers/gemm_peer.h. Each round visits the
// candidates forth and back, so that a drifting clock favours none. Every sample stands between two
// readings of the core's peak. Operands rotate through several sets; every element of every result
// is checked. One JSON line per candidate and shape goes to stdout, a table to stderr.
#include <dlfcn.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "bench/e2e/harness.h"
#include "bench/e2e/probe.h"
#include "lib/exec/cpu/tile/gemm.h"

namespace {

using sk::DType;
namespace cpu = sk::cpu;

struct Shape {
  int64_t m, n, k;
  double flops() const { return 2.0 * double(m) * double(n) * double(k); }
};

struct Options {
  DType dtype = DType::kF32;
  std::vector<Shape> shapes = {{256, 256, 256}, {512, 512, 512}, {1024, 1024, 1024}};
  int rounds = 7;
  int sets = 3;
  int core = 1;
  double sample_ms = 3.0;
  bool ends = false;  // Also the tiles of a fused all-reduce of two ranks.
  std::vector<std::pair<std::string, std::string>> peers;  // Name, path.
};

[[noreturn]] void die(const std::string& what) {
  fprintf(stderr, "tile_gemm_bench: %s\n", what.c_str());
  exit(2);
}

struct FreeMemory {
  void operator()(void* p) const { free(p); }
};
using Memory = std::unique_ptr<char, FreeMemory>;

Memory allocate(size_t bytes) {
  const size_t page = 4096;
  char* p = static_cast<char*>(aligned_alloc(page, (bytes + page - 1) / page * page));
  if (p == nullptr) die("out of memory");
  return Memory(p);
}

// A product ready to run, on one set of operands.
class Product {
 public:
  virtual ~Product() = default;
  virtual bool run() = 0;
  virtual float* out() = 0;
};

using Epilogue = cpu::GemmTileArgs::Epilogue;

// kReduce adds a partial of zeros, as the first of two ranks, and stores to two C.
class OwnProduct : public Product {
 public:
  OwnProduct(const Shape& s, DType dtype, Epilogue epilogue, const std::vector<float>& a,
             const std::vector<float>& b)
      : shape_(s),
        kernel_(cpu::select_gemm(dtype)),
        epilogue_(epilogue),
        c_(allocate(size_t(s.m * s.n) * 4)),
        other_c_(allocate(size_t(s.m * s.n) * 4)) {
    a_ = convert(dtype, a);
    const Memory plain_b = convert(dtype, b);
    packed_ = allocate(cpu::packed_bytes(kernel_, s.k, s.n) + 64);
    cpu::pack_b(kernel_, plain_b.get(), s.n, false, s.k, s.n, packed_.get(), 0, s.n);
    tiling_ = cpu::gemm_tiling(kernel_, s.m, s.n, s.k, 1);
    tile_bytes_ = (cpu::partial_bytes(kernel_, tiling_.m, tiling_.n) + 63) / 64 * 64;
    const int64_t tiles = ((s.m + tiling_.m - 1) / tiling_.m) * ((s.n + tiling_.n - 1) / tiling_.n);
    partials_ = allocate(size_t(tiles) * tile_bytes_);
    memset(partials_.get(), 0, size_t(tiles) * tile_bytes_);
  }

  bool run() override {
    const Shape& s = shape_;
    cpu::GemmTileArgs g;
    g.a = a_.get();
    g.lda = s.k;
    g.packed_b = packed_.get();
    g.m = s.m;
    g.n = s.n;
    g.k = s.k;
    g.epilogue = epilogue_;
    g.c_count = epilogue_ == Epilogue::kReduce ? 2 : 1;
    g.ldc = s.n;
    g.partial_count = 2;
    char* partial = partials_.get();
    for (g.col0 = 0; g.col0 < s.n; g.col0 += tiling_.n) {
      g.cols = std::min(tiling_.n, s.n - g.col0);
      for (g.row0 = 0; g.row0 < s.m; g.row0 += tiling_.m) {
        g.rows = std::min(tiling_.m, s.m - g.row0);
        const int64_t at = g.row0 * s.n + g.col0;
        void* c[] = {out() + at, reinterpret_cast<float*>(other_c_.get()) + at};
        const void* partials[] = {nullptr, partial};
        g.c = c;
        g.partial = partial;
        g.partials = partials;
        cpu::gemm_tile(kernel_, g);
        partial += tile_bytes_;
      }
    }
    return true;
  }
  float* out() override { return reinterpret_cast<float*>(c_.get()); }

 private:
  static Memory convert(DType dtype, const std::vector<float>& from) {
    Memory to = allocate(from.size() * sk::dtype_bytes(dtype));
    for (size_t i = 0; i < from.size(); ++i) {
      if (dtype == DType::kF32) {
        reinterpret_cast<float*>(to.get())[i] = from[i];
      } else {
        reinterpret_cast<uint16_t*>(to.get())[i] = sk::f32_to_bf16(from[i]);
      }
    }
    return to;
  }

  Shape shape_;
  const cpu::GemmKernel* kernel_;
  Epilogue epilogue_;
  cpu::GemmTiling tiling_;
  size_t tile_bytes_ = 0;
  Memory a_, packed_, c_, other_c_, partials_;
};

struct Shim {
  void* (*create)(int64_t, int64_t, int64_t, int, const float*, const float*);
  int (*run)(void*);
  float* (*out)(void*);
  const char* (*info)(void*);
  void (*free)(void*);
};

Shim load_shim(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (library == nullptr) die(dlerror());
  Shim shim;
  const auto find = [&](const char* name) {
    void* symbol = dlsym(library, name);
    if (symbol == nullptr) die(path + " has no " + name);
    return symbol;
  };
  shim.create = reinterpret_cast<decltype(Shim::create)>(find("gemm_peer_create"));
  shim.run = reinterpret_cast<decltype(Shim::run)>(find("gemm_peer_run"));
  shim.out = reinterpret_cast<decltype(Shim::out)>(find("gemm_peer_out"));
  shim.info = reinterpret_cast<decltype(Shim::info)>(find("gemm_peer_info"));
  shim.free = reinterpret_cast<decltype(Shim::free)>(find("gemm_peer_free"));
  return shim;
}

class PeerProduct : public Product {
 public:
  PeerProduct(const Shim& shim, const Shape& s, DType dtype, const std::vector<float>& a,
              const std::vector<float>& b)
      : shim_(shim),
        handle_(shim.create(s.m, s.n, s.k, dtype == DType::kBF16, a.data(), b.data())) {
    if (handle_ == nullptr) die("a peer could not be created");
  }
  ~PeerProduct() override { shim_.free(handle_); }
  bool run() override { return shim_.run(handle_) == 0; }
  float* out() override { return shim_.out(handle_); }
  std::string info() const { return shim_.info(handle_); }

 private:
  Shim shim_;
  void* handle_;
};

struct Operands {
  std::vector<float> a, b;
};

// Random, and already rounded to the type under test, so that all candidates get the same numbers.
Operands random_operands(const Shape& s, DType dtype, uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  Operands o = {std::vector<float>(size_t(s.m * s.k)), std::vector<float>(size_t(s.k * s.n))};
  for (std::vector<float>* x : {&o.a, &o.b}) {
    for (float& v : *x) {
      v = uniform(engine);
      if (dtype == DType::kBF16) v = sk::bf16_to_f32(sk::f32_to_bf16(v));
    }
  }
  return o;
}

// C x against A (B x) in f64 with a random x of signs: one wrong element of C moves one entry by
// its whole error. Then a few hundred elements by themselves.
void check(const Shape& s, const Operands& o, const float* c, const std::string& who) {
  std::mt19937_64 engine(7);
  std::vector<double> x(static_cast<size_t>(s.n)), bx(static_cast<size_t>(s.k), 0.0);
  for (double& v : x) v = (engine() & 1) != 0 ? 1.0 : -1.0;
  for (int64_t l = 0; l < s.k; ++l) {
    for (int64_t j = 0; j < s.n; ++j)
      bx[size_t(l)] += double(o.b[size_t(l * s.n + j)]) * x[size_t(j)];
  }
  const double element_error = 4e-7 * double(s.k);
  for (int64_t i = 0; i < s.m; ++i) {
    double expected = 0, got = 0;
    for (int64_t l = 0; l < s.k; ++l) expected += double(o.a[size_t(i * s.k + l)]) * bx[size_t(l)];
    for (int64_t j = 0; j < s.n; ++j) got += double(c[i * s.n + j]) * x[size_t(j)];
    if (!(std::fabs(got - expected) <= element_error * std::sqrt(double(s.n)) * 4)) {
      die(who + ": row " + std::to_string(i) + " is wrong");
    }
  }
  for (int sample = 0; sample < 300; ++sample) {
    const auto i = int64_t(engine() % uint64_t(s.m)), j = int64_t(engine() % uint64_t(s.n));
    double expected = 0;
    for (int64_t l = 0; l < s.k; ++l) {
      expected += double(o.a[size_t(i * s.k + l)]) * double(o.b[size_t(l * s.n + j)]);
    }
    if (!(std::fabs(double(c[i * s.n + j]) - expected) <= element_error)) {
      die(who + ": element " + std::to_string(i) + ", " + std::to_string(j) + " is wrong");
    }
  }
}

struct Candidate {
  std::string name, info;
  std::vector<std::unique_ptr<Product>> sets;
  int calls = 1;  // Per sample.
  std::vector<double> us, peak_before, peak_after;
};

double peak(DType dtype) {
  return dtype == DType::kF32 ? sk_bench::f32_peak_gflops() : sk_bench::bf16_peak_gflops();
}

double run_calls(Candidate& c, int calls) {
  const double start = bench_now();
  for (int i = 0; i < calls; ++i) {
    if (!c.sets[size_t(i) % c.sets.size()]->run()) die(c.name + " failed");
  }
  return bench_now() - start;
}

void sample(Candidate& c, DType dtype) {
  run_calls(c, 1);  // The neighbour's operands leave the caches.
  const double before = peak(dtype);
  const double seconds = run_calls(c, c.calls);
  c.us.push_back(seconds / c.calls * 1e6);
  c.peak_before.push_back(before);
  c.peak_after.push_back(peak(dtype));
}

double median(std::vector<double> v) {
  if (v.empty()) return std::nan("");
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

void print_list(const char* name, const std::vector<double>& v) {
  printf(", \"%s\": [", name);
  for (size_t i = 0; i < v.size(); ++i) printf("%s%.3f", i != 0 ? ", " : "", v[i]);
  printf("]");
}

void report(const Options& options, const Shape& s, const Candidate& c) {
  std::vector<double> share;
  for (size_t i = 0; i < c.us.size(); ++i) {
    share.push_back(s.flops() / c.us[i] / 1e3 / ((c.peak_before[i] + c.peak_after[i]) / 2));
  }
  printf(
      "{\"case\": \"%s\", \"info\": \"%s\", \"dtype\": \"%s\", \"m\": %lld, \"n\": %lld, \"k\": "
      "%lld, \"calls\": %d",
      c.name.c_str(), c.info.c_str(), sk::dtype_name(options.dtype), static_cast<long long>(s.m),
      static_cast<long long>(s.n), static_cast<long long>(s.k), c.calls);
  print_list("us", c.us);
  print_list("peak_before", c.peak_before);
  print_list("peak_after", c.peak_after);
  printf("}\n");
  const double best_us = *std::min_element(c.us.begin(), c.us.end());
  fprintf(stderr, "  %-8s %-40s median %6.1f %% of peak, best %6.1f %%, best %8.1f us %7.1f GF/s\n",
          c.name.c_str(), c.info.c_str(), 100 * median(share),
          100 * *std::max_element(share.begin(), share.end()), best_us, s.flops() / best_us / 1e3);
}

void run_shape(const Options& options, const std::vector<Shim>& shims, const Shape& s) {
  std::vector<Operands> operands;
  for (int i = 0; i < options.sets; ++i) {
    operands.push_back(random_operands(s, options.dtype, uint64_t(i) + 1));
  }
  std::vector<std::pair<const char*, Epilogue>> own = {{"libsk", Epilogue::kStore}};
  if (options.ends) {
    own.emplace_back("partial", Epilogue::kPartial);
    own.emplace_back("reduce", Epilogue::kReduce);
  }
  std::vector<Candidate> candidates(own.size() + shims.size());
  for (size_t c = 0; c < candidates.size(); ++c) {
    Candidate& candidate = candidates[c];
    for (const Operands& o : operands) {
      if (c < own.size()) {
        candidate.name = own[c].first;
        candidate.info = cpu::gemm_kernel_name(cpu::select_gemm(options.dtype));
        candidate.sets.push_back(
            std::make_unique<OwnProduct>(s, options.dtype, own[c].second, o.a, o.b));
      } else {
        const size_t p = c - own.size();
        auto product = std::make_unique<PeerProduct>(shims[p], s, options.dtype, o.a, o.b);
        candidate.name = options.peers[p].first;
        candidate.info = product->info();
        candidate.sets.push_back(std::move(product));
      }
    }
  }
  for (Candidate& c : candidates) {
    for (size_t i = 0; i < c.sets.size() && c.name != "partial"; ++i) {  // Whose layout is its own.
      memset(c.sets[i]->out(), 0xFF, size_t(s.m * s.n) * sizeof(float));
      if (!c.sets[i]->run()) die(c.name + " failed");
      check(s, operands[i], c.sets[i]->out(), c.name);
    }
    const double once = run_calls(c, 1);
    c.calls = std::max(1, int(options.sample_ms / 1e3 / once));
  }
  const int count = int(candidates.size());
  for (int round = 0; round < options.rounds; ++round) {
    for (int i = 0; i < count; ++i) sample(candidates[size_t((i + round) % count)], options.dtype);
    for (int i = count - 1; i >= 0; --i) {
      sample(candidates[size_t((i + round) % count)], options.dtype);
    }
  }
  fprintf(stderr, "%s %lldx%lldx%lld\n", sk::dtype_name(options.dtype), static_cast<long long>(s.m),
          static_cast<long long>(s.n), static_cast<long long>(s.k));
  for (const Candidate& c : candidates) report(options, s, c);
  fflush(stdout);
}

std::vector<Shape> parse_shapes(const char* text) {
  std::vector<Shape> shapes;
  for (const char* at = text; *at != '\0';) {
    long long m = 0, n = 0, k = 0;
    int used = 0;
    if (sscanf(at, "%lldx%lldx%lld%n", &m, &n, &k, &used) != 3 || m < 1 || n < 1 || k < 1) {
      die(std::string("--shapes wants MxNxK,..., not ") + text);
    }
    shapes.push_back({m, n, k});
    at += used;
    if (*at == ',') ++at;
  }
  return shapes;
}

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 >= argc) die(name + " wants a value");
    const char* value = argv[i + 1];
    if (name == "--dtype" && strcmp(value, "f32") == 0) {
      o.dtype = DType::kF32;
    } else if (name == "--dtype" && strcmp(value, "bf16") == 0) {
      o.dtype = DType::kBF16;
    } else if (name == "--shapes") {
      o.shapes = parse_shapes(value);
    } else if (name == "--rounds" && atoi(value) > 0) {
      o.rounds = atoi(value);
    } else if (name == "--sets" && atoi(value) > 0) {
      o.sets = atoi(value);
    } else if (name == "--sample-ms" && atof(value) > 0) {
      o.sample_ms = atof(value);
    } else if (name == "--ends") {
      o.ends = atoi(value) != 0;
    } else if (name == "--core") {
      o.core = atoi(value);
    } else if (name == "--peer" && strchr(value, '=') != nullptr) {
      const char* equals = strchr(value, '=');
      o.peers.emplace_back(std::string(value, equals), equals + 1);
    } else {
      die("does not know " + name + " " + value);
    }
  }
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  bench_pin(options.core);
  std::vector<Shim> shims;
  for (const auto& peer : options.peers) shims.push_back(load_shim(peer.second));
  for (const Shape& shape : options.shapes) run_shape(options, shims, shape);
  return 0;
}
