#include "lib/comm/limits.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace sk {

uint64_t memory_bytes() {
  return uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE));
}

uint64_t reservable_bytes(uint32_t segments) {
  // Half of what 47 bits reach, which is what processors have at least.
  constexpr uint64_t kAddressSpace = uint64_t(1) << 46;
  uint64_t room = kAddressSpace / segments;
  rlimit limit = {};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const uint64_t taken = pages * uint64_t(sysconf(_SC_PAGESIZE));
    const uint64_t left = limit.rlim_cur - std::min<uint64_t>(limit.rlim_cur, taken);
    room = std::min(room, left / 2 / segments);
  }
  // Of a file that a segment is: another part holds signals and staging.
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    room = std::min<uint64_t>(room, limit.rlim_cur / 2);
  return room;
}

CpuMask usable_cpus() {
  CpuMask mask;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) {  // More CPUs than the set holds.
    for (long cpu = 0; cpu < sysconf(_SC_NPROCESSORS_ONLN) && cpu < 1024; ++cpu) mask.set(cpu);
    return mask;
  }
  for (size_t cpu = 0; cpu < mask.size(); ++cpu) mask[cpu] = CPU_ISSET(cpu, &set);
  return mask;
}

Result<uint32_t> workers_from_environment() {
  const char* text = std::getenv("SK_WORKERS");
  if (text == nullptr || *text == '\0') return uint32_t(0);
  uint32_t value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, problem] = std::from_chars(text, end, value);
  if (problem != std::errc() || stop != end || value < 1 || value > kWorkersMax) {
    return error(SK_ERR_INVALID_ARGUMENT, "SK_WORKERS is '{}', it must be a number from 1 to {}",
                 text, kWorkersMax);
  }
  return value;
}

uint64_t shared_cache_bytes() {
  // Virtual machines report the whole host's cache (320 MB seen), so no more than one core
  // complex's.
  constexpr uint64_t kSharedCacheMax = uint64_t(32) << 20;
  const long level3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return level3 > 0 ? std::min(uint64_t(level3), kSharedCacheMax) : kSharedCacheMax;
}

void tune(Target& target, uint64_t cache_bytes) {
  // One-shot reads world_size inputs in every rank, the other forms 1 / world_size of each, but
  // one-shot needs one hand-off less. With two ranks the bytes that cross are the same, and
  // one-shot has the fewest tasks as long as staging holds the input.
  const uint64_t ranks = target.world_size;
  const bool pair = ranks == 2;
  target.one_shot_bytes = pair ? 256 << 10 : std::max<uint64_t>(512, (128 << 10) / ranks);
  // Where ranks share cores a hand-off is a change of process, worth many copies.
  const bool shared = ranks * target.workers > target.cores;
  target.one_shot_symmetric_bytes = (shared ? 64 << 10 : 2 << 10) / ranks;
  if (pair) {  // Rings of 1 MB: large chunks, and a line's slot comes round after a cache's worth.
    target.chunk_bytes = 128 << 10;
    target.slot_count = 8;
  }
  // Stores past the caches pay once inputs and outputs of all ranks together overflow the last one:
  // until then the reader finds them there.
  target.stream_bytes = std::max<uint64_t>(1 << 20, cache_bytes / (2 * target.world_size));
}

void advise_huge_pages(std::byte* data, uint64_t bytes) {
  if (bytes >= (2 << 20)) madvise(data, bytes, MADV_HUGEPAGE);
}

}  // namespace sk
