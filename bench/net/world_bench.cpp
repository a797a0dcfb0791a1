// What a rank of a large world takes, and how long its smallest calls are: every rank is a process
// that `sk run` has started, and rank 0 prints a JSON line.
//
// usage: sk run -n RANKS world_bench CALLS [put_only]
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "sk.h"

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void must(sk_status status, const char* what) {
  if (status == SK_OK) return;
  fprintf(stderr, "%s: %s\n", what, sk_last_error());
  exit(1);
}

// Descriptors of this process, and what its own segment takes of memory, and its control block: of
// that only a mapping is left, which root can look behind.
struct Taken {
  size_t descriptors = 0;
  uint64_t segment_bytes = 0;
  uint64_t control_bytes = 0;  // Of all ranks of the host.
};
Taken taken() {
  Taken all;
  std::error_code gone;  // The iterator's own descriptor.
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    struct stat info = {};
    ++all.descriptors;
    if (target.find("memfd:sk-segment") == std::string::npos) continue;
    if (stat(entry.path().c_str(), &info) == 0) all.segment_bytes += uint64_t(info.st_blocks) * 512;
  }
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:sk-control") == std::string::npos) continue;
    struct stat info = {};
    const std::string file = "/proc/self/map_files/" + line.substr(0, line.find(' '));
    if (stat(file.c_str(), &info) == 0) all.control_bytes = uint64_t(info.st_blocks) * 512;
    break;
  }
  return all;
}

// Of the tables by which this process reaches its peers' segments.
long page_table_kb() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmPTE:")) return std::atol(line.c_str() + 6);
  }
  return 0;
}

// What this process has had of cores.
double cpu_us() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return double(time.tv_sec) * 1e6 + double(time.tv_nsec) * 1e-3;
}

// Of a call: the median, and what it takes of cores on the average, here.
struct Figures {
  double median_us, cpu_us;
};
template <typename Call>
Figures measure(int calls, const Call& call) {
  std::vector<double> times;
  const double before = cpu_us();
  for (int i = 0; i < calls; ++i) {
    const double start = now();
    call();
    times.push_back((now() - start) * 1e6);
  }
  const double taken = (cpu_us() - before) / calls;
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], taken};
}

}  // namespace

int main(int argc, char** argv) {
  const int calls = argc > 1 ? std::max(1, std::atoi(argv[1])) : 100;
  const bool put_only = argc > 2 && std::string(argv[2]) == "put_only";
  sk_context* context = nullptr;
  sk_comm* comm = nullptr;
  must(sk_init(nullptr, &context), "sk_init");
  sk_comm_config config = {};
  config.struct_size = sizeof config;
  config.flags = put_only ? SK_COMM_PUT_ONLY : 0;
  const double start = now();
  must(sk_comm_create(context, &config, &comm), "sk_comm_create");
  const double connected = now();
  const Taken own = taken();
  sk_comm_info info = {};
  info.struct_size = sizeof info;
  must(sk_comm_query(comm, &info), "sk_comm_query");

  const auto barrier = [&] { must(sk_barrier(comm, nullptr), "sk_barrier"); };
  double in = 1, out = 0;
  const auto reduce = [&] {
    must(sk_allreduce(comm, &in, &out, 1, SK_F64, SK_SUM, nullptr), "sk_allreduce");
  };
  barrier();
  const Figures of_barrier = measure(calls, barrier);
  const double before = now();
  reduce();
  const double first_ms = (now() - before) * 1e3;
  const Figures of_reduce = measure(calls, reduce);
  if (out != info.world_size) {
    fprintf(stderr, "rank %d: the sum is %g\n", info.rank, out);
    return 1;
  }
  // Of all ranks together: on a machine that others use, too, it says more than time does.
  double cpu[2] = {of_barrier.cpu_us, of_reduce.cpu_us};
  must(sk_allreduce(comm, cpu, cpu, 2, SK_F64, SK_SUM, nullptr), "sk_allreduce");
  double least = double(own.descriptors);  // Rank 0 looks after the others' processes.
  must(sk_allreduce(comm, &least, &least, 1, SK_F64, SK_MIN, nullptr), "sk_allreduce");
  // All are there, so it takes what connecting takes.
  sk_comm* second = nullptr;
  barrier();
  const double again = now();
  must(sk_comm_create(context, &config, &second), "sk_comm_create");
  const double joined = now();
  must(sk_comm_free(second), "sk_comm_free");
  const uint64_t rank_bytes = own.segment_bytes + own.control_bytes / uint64_t(info.world_size);
  if (info.rank == 0) {
    printf(
        "{\"ranks\": %d, \"put_only\": %s, \"connect_s\": %.3f, \"join_s\": %.4f, "
        "\"rank_bytes\": %llu, \"descriptors\": %zu, \"descriptors_least\": %.0f, "
        "\"page_table_kb\": %ld, \"barrier_us\": %.1f, "
        "\"barrier_cpu_us\": %.1f, \"first_allreduce_ms\": %.2f, \"allreduce_us\": %.1f, "
        "\"allreduce_cpu_us\": %.1f}\n",
        info.world_size, put_only ? "true" : "false", connected - start, joined - again,
        static_cast<unsigned long long>(rank_bytes), own.descriptors, least, page_table_kb(),
        of_barrier.median_us, cpu[0], first_ms, of_reduce.median_us, cpu[1]);
  }
  barrier();
  must(sk_comm_free(comm), "sk_comm_free");
  return sk_finalize(context) == SK_OK ? 0 : 1;
}
