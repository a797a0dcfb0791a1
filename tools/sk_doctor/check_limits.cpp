// CPUs, memory, and what the system lets one process have.
#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "lib/base/control_group.h"
#include "lib/base/cpu_limit.h"
#include "lib/base/memory_limit.h"
#include "lib/base/status.h"
#include "tools/sk_doctor/checks.h"
#include "transport/bootstrap/identity.h"

namespace sk::doctor {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint64_t kSegmentBytes = 8 << 20;  // A rank's, before anybody asks for symmetric memory.
// Of rank 0 while ranks of one host connect, for each: a connection of their meeting, and one of
// shared memory or, later, what tells of the rank's end. Found by lowering the limit.
constexpr uint64_t kDescriptorsPerRank = 2;
// Of a rank on another host: that of their meeting, one to each other, and while they connect the
// other's, of which one stays.
constexpr uint64_t kDescriptorsPerFarRank = 3;
constexpr uint64_t kDescriptorsOfOne = 16;  // Standard streams, event queues, sockets to listen at.

struct Limit {
  uint64_t soft = UINT64_MAX, hard = UINT64_MAX;  // UINT64_MAX: none.
};

Limit limit_of(decltype(RLIMIT_NOFILE) which) {
  rlimit limit{};
  if (getrlimit(which, &limit) != 0) return {};
  const auto plain = [](rlim_t value) { return value == RLIM_INFINITY ? UINT64_MAX : value; };
  return {plain(limit.rlim_cur), plain(limit.rlim_max)};
}

std::string count_text(uint64_t count) {
  return count == UINT64_MAX ? "no limit" : std::to_string(count);
}

// Processes that the tightest control group still takes; UINT64_MAX: no limit.
uint64_t processes_left_in_groups() {
  uint64_t left = UINT64_MAX;
  for_each_control_group("", {"pids", "/sys/fs/cgroup/pids"}, [&](const std::string& folder, bool) {
    uint64_t most = 0, now = 0;
    std::ifstream limit(folder + "/pids.max"), used(folder + "/pids.current");
    if (!(limit >> most) || !(used >> now)) return;
    left = std::min(left, most > now ? most - now : 0);
  });
  return left;
}

// Processes and threads that this user may have beside those that are there; UINT64_MAX: no limit
// counts, as for a superuser.
uint64_t processes_left_of(uint64_t limit) {
  if (limit == UINT64_MAX || geteuid() == 0) return UINT64_MAX;
  uint64_t used = 0;
  std::error_code failed;
  using Folder = std::filesystem::directory_iterator;
  for (Folder it("/proc", failed), end; !failed && it != end; it.increment(failed)) {
    std::ifstream status(it->path() / "status");
    uint64_t user = UINT64_MAX, threads = 0;
    for (std::string word; status >> word;) {
      if (word == "Uid:") status >> user;
      if (word == "Threads:" && status >> threads) break;
    }
    if (user == getuid()) used += threads;
  }
  return limit > used ? limit - used : 0;
}

}  // namespace

int ranks_for_descriptors(uint64_t descriptors) {
  if (descriptors < kDescriptorsOfOne) return 0;
  return int(std::min<uint64_t>((descriptors - kDescriptorsOfOne) / kDescriptorsPerRank, 4096));
}

uint64_t descriptors_for_ranks(int ranks) {
  return kDescriptorsOfOne + kDescriptorsPerRank * uint64_t(ranks);
}

uint64_t descriptors_of_hub(int world_size, int local_size) {
  return descriptors_for_ranks(local_size) +
         kDescriptorsPerFarRank * uint64_t(world_size - local_size);
}

int usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int allowed = sched_getaffinity(0, sizeof(set), &set) == 0
                          ? CPU_COUNT(&set)
                          : int(std::thread::hardware_concurrency());
  return std::max(1, int(std::min<uint64_t>(uint64_t(allowed), cpu_limit("").cpus)));
}

void check_cpus(Findings* findings) {
  const auto there = int(sysconf(_SC_NPROCESSORS_ONLN));
  cpu_set_t set;
  CPU_ZERO(&set);
  const int allowed = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : there;
  const uint32_t quota = cpu_limit("").cpus;
  if (uint64_t(quota) < uint64_t(allowed)) {
    findings->limit(
        "cpus",
        fmt::format("the time of {} CPUs (quota of the control group), of {} here", quota, there),
        fmt::format("start {} ranks at most (sk run -n {}), or give the container more "
                    "(docker run --cpus)",
                    quota, quota));
  } else if (allowed < there) {
    findings->limit(
        "cpus", fmt::format("{} of {} CPUs may be used (affinity)", allowed, there),
        fmt::format("start {} ranks at most, or without taskset, cpuset or --cpus-per-task",
                    allowed));
  } else {
    findings->ok("cpus", fmt::format("all {} may be used", there));
  }
}

void check_memory(Findings* findings) {
  const MemoryRoom room = memory_room("");
  const uint64_t left = std::min(room.machine, room.group);
  const std::string found =
      room.group < room.machine
          ? fmt::format("{} left by the control group ({}), {} in the machine",
                        bytes_text(room.group), room.group_limit, bytes_text(room.machine))
          : fmt::format("{} left", bytes_text(left));
  if (left < kGiB / 4) {
    findings->limit("memory", found, "end what is not needed, or give the container more memory");
  } else {
    findings->ok("memory", found);
  }
  const Limit files = limit_of(RLIMIT_FSIZE), space = limit_of(RLIMIT_AS);
  if (files.soft != UINT64_MAX) {
    const std::string said = fmt::format("files may have {} (ulimit -f), and shared memory is one",
                                         bytes_text(files.soft));
    files.soft < kSegmentBytes ? findings->fault("memory", said, "ulimit -f unlimited")
                               : findings->limit("memory", said, "ulimit -f unlimited");
  }
  if (space.soft != UINT64_MAX) {
    findings->limit("memory",
                    fmt::format("a process may have {} of address space (ulimit -v); each rank "
                                "maps the shared memory of all ranks of its host",
                                bytes_text(space.soft)),
                    "ulimit -v unlimited");
  }
  const Limit locked = limit_of(RLIMIT_MEMLOCK);
  findings->info("memory",
                 fmt::format("{} may be locked (ulimit -l); libsk locks none",
                             locked.soft == UINT64_MAX ? "all of it" : bytes_text(locked.soft)));
}

void check_descriptors(const Identity* identity, Findings* findings) {
  const Limit limit = limit_of(RLIMIT_NOFILE);
  const int ranks = ranks_for_descriptors(limit.soft), cpus = usable_cpus();
  // Where the launcher does not say how many are here, as if no other were.
  const int local = identity == nullptr        ? std::max(2, cpus)
                    : identity->local_size > 0 ? identity->local_size
                                               : 1;
  const int all = identity == nullptr ? local : identity->world_size;
  const uint64_t of_program = descriptors_of_hub(all, local);
  // In a job rank 0 holds a connection to each other's doctor meanwhile.
  const uint64_t needed = of_program + (identity == nullptr ? 0 : uint64_t(all));
  std::string found = fmt::format("{} (ulimit -n), {} at most, enough for {} ranks on this host",
                                  count_text(limit.soft), count_text(limit.hard), ranks);
  const std::string advice =
      limit.hard >= needed
          ? fmt::format("ulimit -n {}",
                        std::min<uint64_t>(limit.hard, std::max<uint64_t>(needed, 65536)))
          : fmt::format(
                "have the hard limit raised to {} (limits.conf, docker run --ulimit nofile=)",
                needed);
  // Between hosts libsk raises its soft limit to what it needs (lib/base/descriptors.h).
  const bool is_raised = identity != nullptr && all > local;
  const bool is_short = (is_raised ? limit.hard : limit.soft) < needed;
  if (is_short && identity == nullptr) found += fmt::format(", which has {} CPUs", cpus);
  if (is_short && identity != nullptr)
    found += fmt::format(
        "; while {} ranks connect, {} of them here, one may need {}, and {} with this meeting", all,
        local, of_program, needed);
  if (ranks < 2) {
    findings->fault("descriptors", found, advice);
  } else if (is_short) {
    findings->limit("descriptors", found, advice);
  } else {
    findings->ok("descriptors", found);
  }
}

void check_processes(Findings* findings) {
  const Limit limit = limit_of(RLIMIT_NPROC);
  const uint64_t in_groups = processes_left_in_groups(), of_user = processes_left_of(limit.soft);
  const uint64_t left = std::min(in_groups, of_user);
  const int cpus = usable_cpus();
  // A rank of several hosts has a thread that moves bytes; a notebook has its front end, controller
  // and template.
  const uint64_t needed = 2 * uint64_t(cpus) + 8;
  const std::string found = fmt::format(
      "processes and threads: {} for this user (ulimit -u{}), the control group takes {} "
      "more",
      count_text(limit.soft), of_user == UINT64_MAX ? "" : fmt::format(", {} more", of_user),
      in_groups == UINT64_MAX ? "any number" : std::to_string(in_groups));
  if (left < needed) {
    const std::string advice =
        of_user < in_groups
            ? fmt::format("let this user have {} more (ulimit -u, limits.conf)", needed)
            : fmt::format("let it take {} (docker run --pids-limit, TasksMax= of systemd)", needed);
    left < 8 ? findings->fault("processes", found, advice)
             : findings->limit("processes", found, advice);
  } else {
    findings->ok("processes", found);
  }
}

}  // namespace sk::doctor
