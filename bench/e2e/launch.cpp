#include "bench/e2e/launch.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace sk_bench {

void* shared_memory(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) {
    perror("bench: mmap");
    exit(2);
  }
  return p;
}

int run_ranks(int ranks, const std::function<int(bench_world*)>& body) {
  auto* area = static_cast<bench_area*>(shared_memory(sizeof(bench_area)));
  std::vector<pid_t> children;
  fflush(stdout);
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t pid = fork();
    if (pid < 0) {
      perror("bench: fork");
      for (const pid_t child : children) kill(child, SIGKILL);
      return 2;
    }
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);  // A killed launcher leaves no spinning ranks behind.
      bench_world world;
      bench_world_init(&world, area, rank, ranks);
      if (ranks == 1) bench_pin(0);  // Peers' libraries that are loaded later see one core.
      const int code = body(&world);
      fflush(stdout);
      _exit(code);
    }
    children.push_back(pid);
  }
  int result = 0;
  for (size_t left = children.size(); left > 0; --left) {
    int status = 0;
    const pid_t pid = wait(&status);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    for (pid_t& child : children) {
      if (child == pid) child = 0;
    }
    if (code == 0 || result != 0) continue;
    result = code;
    for (const pid_t child : children) {
      if (child > 0) kill(child, SIGKILL);
    }
  }
  munmap(area, sizeof(bench_area));
  return result;
}

void must(bench_world* world, sk_status status, const char* what) {
  if (status == SK_OK) return;
  const std::string line =
      std::string(what) + ": " + sk_status_name(status) + ": " + sk_last_error();
  bench_die(world, line.c_str());
}

namespace {

// The bootstrap of sk_comm_config::allgather, through the area's slots.
int32_t gather(void* user, const void* in, size_t bytes, void* out) {
  auto* w = static_cast<bench_world*>(user);
  if (bytes > BENCH_SLOT_BYTES) return 1;
  memcpy(w->area->slot[w->rank], in, bytes);
  for (int step = 0; step < 2; ++step) {  // All have written; all have read.
    const uint32_t turn = ++w->gathers;
    __atomic_store_n(&w->area->gathered[w->rank].value, turn, __ATOMIC_RELEASE);
    for (int r = 0; r < w->ranks; ++r) bench_wait(w, &w->area->gathered[r].value, turn);
    for (int r = 0; step == 0 && r < w->ranks; ++r) {
      memcpy(static_cast<char*>(out) + static_cast<size_t>(r) * bytes, w->area->slot[r], bytes);
    }
  }
  return 0;
}

}  // namespace

Session::Session(bench_world* world, uint32_t flags) {
  must(world, sk_init(nullptr, &context), "sk_init");
  sk_comm_config config = {};
  config.struct_size = sizeof config;
  config.bootstrap = SK_BOOTSTRAP_CALLBACK;
  config.rank = world->rank;
  config.world_size = world->ranks;
  config.allgather = gather;
  config.bootstrap_user = world;
  config.timeout_ms = 60'000;
  config.flags = flags;
  config.workers = 1;  // The budget of every peer's rank: one core.
  must(world, sk_comm_create(context, &config, &comm), "sk_comm_create");
  bench_pin(world->rank);
}

Session::~Session() {
  sk_comm_free(comm);
  sk_finalize(context);
}

Alone::Alone(bench_world* world) {
  must(world, sk_init(nullptr, &context), "sk_init");
  sk_comm_config config = {};
  config.struct_size = sizeof config;
  config.bootstrap = SK_BOOTSTRAP_THREADS;
  config.world_size = 1;
  config.name = "alone";
  config.workers = 1;
  must(world, sk_comm_create(context, &config, &comm), "sk_comm_create");
}

Alone::~Alone() {
  sk_comm_free(comm);
  sk_finalize(context);
}

}  // namespace sk_bench
