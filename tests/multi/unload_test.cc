// The library loaded, used and unloaded again and again: nothing of it stays behind.
#include <dirent.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "sk.h"

namespace {

// What a process has that a library could leave behind.
struct Held {
  size_t heap_bytes;  // Allocated and not freed.
  size_t mappings;
  size_t descriptors;
  size_t threads;
};

size_t entries_of(const char* path) {
  DIR* folder = opendir(path);
  size_t count = 0;
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

Held held_now() {
  const struct mallinfo2 heap = mallinfo2();
  std::ifstream maps("/proc/self/maps");
  size_t lines = 0;
  for (std::string line; std::getline(maps, line);) ++lines;
  return {heap.uordblks + heap.hblkhd, lines, entries_of("/proc/self/fd"),
          entries_of("/proc/self/task")};
}

class Library {
 public:
  Library() : handle_(dlopen(SK_LIBRARY, RTLD_NOW | RTLD_LOCAL)) {}
  ~Library() { EXPECT_EQ(dlclose(handle_), 0) << dlerror(); }
  template <typename Function>
  Function* get(Function*, const char* name) const {
    return reinterpret_cast<Function*>(dlsym(handle_, name));
  }
  explicit operator bool() const { return handle_ != nullptr; }

 private:
  void* handle_;
};
#define SK_GET(library, name) (library).get(static_cast<decltype(name)*>(nullptr), #name)

// One rank of two, with a worker thread beside its own: a collective, a product, a plan.
void be_rank(const Library& sk, sk_context* context, int rank) {
  sk_comm_config config{};
  config.struct_size = sizeof config;
  config.bootstrap = SK_BOOTSTRAP_THREADS;
  config.rank = rank;
  config.world_size = 2;
  config.workers = 2;
  config.symmetric_bytes_max = 1 << 20;
  sk_comm* comm = nullptr;
  ASSERT_EQ(SK_GET(sk, sk_comm_create)(context, &config, &comm), SK_OK)
      << SK_GET(sk, sk_last_error)();
  std::vector<float> x(1000, 1.0f), b(64 * 64, 1.0f), c(64 * 64);
  EXPECT_EQ(SK_GET(sk, sk_allreduce)(comm, x.data(), x.data(), 1000, SK_F32, SK_SUM, nullptr),
            SK_OK);
  EXPECT_EQ(x[999], 2.0f);
  void* symmetric = nullptr;
  EXPECT_EQ(SK_GET(sk, sk_alloc)(comm, 4096, &symmetric), SK_OK);
  const auto tensor = [](float* data) {
    return sk_tensor{sizeof(sk_tensor), SK_F32, data, 2, 0, 0, 0, {64, 64}, {64, 1}};
  };
  sk_tensor left = tensor(b.data()), out = tensor(c.data());
  sk_packed* packed = nullptr;
  EXPECT_EQ(SK_GET(sk, sk_pack)(comm, &left, 0, &packed), SK_OK);
  EXPECT_EQ(SK_GET(sk, sk_allreduce_gemm)(comm, &left, nullptr, packed, &out, 0, nullptr), SK_OK)
      << SK_GET(sk, sk_last_error)();
  EXPECT_EQ(c[0], 128.0f);
  EXPECT_EQ(SK_GET(sk, sk_packed_free)(packed), SK_OK);
  EXPECT_EQ(SK_GET(sk, sk_barrier)(comm, nullptr), SK_OK);
  EXPECT_EQ(SK_GET(sk, sk_comm_free)(comm), SK_OK);
}

void load_use_unload() {
  Library sk;
  ASSERT_TRUE(sk) << dlerror();
  // On threads of their own: what a thread keeps for the library goes with the thread.
  sk_context* context = nullptr;
  ASSERT_EQ(SK_GET(sk, sk_init)(nullptr, &context), SK_OK);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&, rank] { be_rank(sk, context, rank); });
  for (std::thread& rank : ranks) rank.join();
  sk_topo* topo = nullptr;
  EXPECT_EQ(SK_GET(sk, sk_topo_discover)(&topo), SK_OK);
  EXPECT_EQ(SK_GET(sk, sk_topo_free)(topo), SK_OK);
  sk_session* session = nullptr;
  EXPECT_EQ(SK_GET(sk, sk_session_open)(nullptr, &session), SK_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(SK_GET(sk, sk_finalize)(context), SK_OK);
}

// What dlopen() and dlclose() themselves keep: libraries that ours needs are loaded with it.
void load_unload() {
  const Library sk;
  ASSERT_TRUE(sk) << dlerror();
}

template <typename Cycle>
double heap_bytes_a_cycle(int cycles, const Cycle& cycle) {
  const Held before = held_now();
  for (int i = 0; i < cycles; ++i) cycle();
  const Held after = held_now();
  EXPECT_EQ(after.descriptors, before.descriptors);
  EXPECT_EQ(after.threads, before.threads);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // They map what they note.
  EXPECT_LE(after.mappings, before.mappings + 2);                    // The heap's own come and go.
#endif
  return (double(after.heap_bytes) - double(before.heap_bytes)) / cycles;
}

// Heaps and thread stacks take some tens of cycles to find their size.
TEST(Unload, NothingStaysBehind) {
  constexpr int kWarm = 40, kCycles = 60;
  mallopt(M_ARENA_MAX, 1);  // What threads allocate is counted, too.
  for (int i = 0; i < kWarm; ++i) load_use_unload();
  void* loaded = dlopen(SK_LIBRARY, RTLD_NOW | RTLD_NOLOAD);
  EXPECT_EQ(loaded, nullptr) << "the library stays loaded";
  const double loading = heap_bytes_a_cycle(kCycles, load_unload);
  // A leak is there each time; what the C library sets aside once, under load, is not.
  double using_it = heap_bytes_a_cycle(kCycles, load_use_unload);
  for (int again = 0; again < 2 && using_it >= loading + 256; ++again)
    using_it = std::min(using_it, heap_bytes_a_cycle(kCycles, load_use_unload));
  std::printf("bytes of heap a cycle: %.0f loaded, %.0f used\n", loading, using_it);
  EXPECT_LT(using_it, loading + 256);
  EXPECT_LT(loading, 4096);
}

}  // namespace
