#include <sys/syscall.h>
#include <unistd.h>

#include "tests/cts/registry.h"
#include "tests/support/apart.h"
#include "transport/fault/fault.h"
#include "transport/shm/shm.h"

namespace sk::cts {
namespace {

using testing_support::Connect;
using testing_support::StageSpec;

constexpr int64_t kConnectTimeoutNs = 60'000'000'000;

std::string always() { return ""; }

std::string with_pidfd() {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0));
  if (fd < 0) return "this kernel has no pidfd_open()";
  close(fd);
  return "";
}

// A rank's thread stores what comes from others, ordered behind the rank's own stores by words of
// other processes; ThreadSanitizer would have to see those.
std::string with_all_in_sight() {
#ifdef __SANITIZE_THREAD__
  return "ThreadSanitizer sees no order that goes through other processes";
#else
  return with_pidfd();
#endif
}

Connect shm(const ShmConfig& config) {
  return [config](Bootstrap& bootstrap, const SegmentLayout& layout) {
    return connect_shm(bootstrap, layout, config);
  };
}

std::function<Connect(const StageSpec&)> open_shm(ShmConfig config) {
  config.timeout_ns = kConnectTimeoutNs;
  return [config](const StageSpec&) { return shm(config); };
}

// Ranks of one process share a network; the victim dies there, not by a signal.
Connect open_fault(const StageSpec& spec) {
  FaultConfig faults = {.seed = spec.seed};
  if (spec.processes == 0 && spec.body == "traffic" && spec.numbers[kVictim] != kNoVictim) {
    faults.kill_rank = static_cast<uint32_t>(spec.numbers[kVictim]);
    faults.kill_message = spec.numbers[kVictimCount];
  }
  const Connect inner = shm({.timeout_ns = kConnectTimeoutNs});
  return
      [inner, network = make_fault_network(faults)](
          Bootstrap& bootstrap, const SegmentLayout& layout) -> Result<std::unique_ptr<Endpoint>> {
        SK_ASSIGN_OR_RETURN(std::unique_ptr<Endpoint> endpoint, inner(bootstrap, layout));
        return network->wrap(std::move(endpoint));
      };
}

std::function<Connect(const StageSpec&)> open_tcp(int ranks_per_host, bool tls = false,
                                                  uint32_t eager_ranks = kEagerRanks) {
  return [=](const StageSpec&) -> Connect {
    return [=](Bootstrap& bootstrap, const SegmentLayout& layout) {
      return testing_support::connect_apart(bootstrap, layout, ranks_per_host, kConnectTimeoutNs,
                                            tls, eager_ranks);
    };
  };
}

// No more than every host's ranks need are connected from the start.
std::function<Connect(const StageSpec&)> open_late(bool tls) { return open_tcp(2, tls, 0); }

constexpr uint32_t kOneEach = 64;  // Processes: more than ranks_max ranks.

}  // namespace

const std::vector<SessionBackend>& session_backends() {
  const Exclusion threads_cannot_die = {"KilledRanksAreNamed",
                                        "a thread cannot be killed without its process"};
  const std::string outlives = "WhoStaysSeesWhoDiesWhenOthersHaveLeft";
  const std::string first = "TheFirstToDieIsNamedByWhoLooksLater";
  const std::string before = "OneThatDiedBeforeTheFirstWordIsNamed";
  const Exclusion threads_die_first = {before, threads_cannot_die.reason};
  const Exclusion threads_die_together = {first, threads_cannot_die.reason};
  const Exclusion threads_leave_together = {outlives, threads_cannot_die.reason};
  const Exclusion nobody_takes_over = {
      outlives, "where PIDs cannot be seen, nobody takes the place of a watcher that has left"};
  const Exclusion two_causes = {"AllRanksSeeTheSameCause",
                                "of two ends at once each host may see another one first"};
  const Exclusion two_ends = {
      first, "of two ends on other hosts between two looks either may be seen first"};
  static const std::vector<SessionBackend> backends = {
      {.name = "shm_threads",
       .processes_max = 0,
       .skip_reason = always,
       .open = open_shm({}),
       .exclusions = {threads_cannot_die, threads_leave_together, threads_die_first,
                      threads_die_together}},
      {.name = "shm_threads_put_only",
       .processes_max = 0,
       .skip_reason = always,
       .open = open_shm({.hide_mapped = true}),
       .exclusions = {threads_cannot_die, threads_leave_together, threads_die_first,
                      threads_die_together}},
      {.name = "shm_processes",
       .processes_max = kOneEach,
       .skip_reason = with_pidfd,
       .open = open_shm({}),
       .exclusions = {}},
      {.name = "shm_processes_put_only",
       .processes_max = kOneEach,
       .skip_reason = with_pidfd,
       .open = open_shm({.hide_mapped = true}),
       .exclusions = {}},
      {.name = "shm_processes_no_pidfd",
       .processes_max = kOneEach,
       .skip_reason = always,
       .open = open_shm({.hide_pidfd = true}),
       .exclusions = {nobody_takes_over,
                      {first, "where PIDs cannot be seen, the watcher has no deputy"}}},
      {.name = "shm_threads_in_processes",
       .processes_max = 2,
       .skip_reason = with_pidfd,
       .open = open_shm({}),
       .exclusions = {{outlives, "a thread that leaves does not end its process"},
                      {first, "ranks of the same processes live and die together"}}},
      {.name = "tcp_threads",
       .processes_max = 0,
       .skip_reason = always,
       .open = open_tcp(1),
       .exclusions = {threads_cannot_die, threads_leave_together, threads_die_first,
                      threads_die_together, two_causes}},
      {.name = "tcp_processes",
       .processes_max = kOneEach,
       .skip_reason = with_all_in_sight,
       .open = open_tcp(1),
       .exclusions = {two_causes, two_ends}},
      {.name = "tcp_tls_threads",
       .processes_max = 0,
       .skip_reason = always,
       .open = open_tcp(1, true),
       .exclusions = {threads_cannot_die, threads_leave_together, threads_die_first,
                      threads_die_together, two_causes}},
      {.name = "tcp_tls_processes",
       .processes_max = kOneEach,
       .skip_reason = with_all_in_sight,
       .open = open_tcp(1, true),
       .exclusions = {two_causes, two_ends}},
      {.name = "tcp_and_shm_processes",
       .processes_max = kOneEach,
       .skip_reason = with_all_in_sight,
       .open = open_tcp(2),
       .exclusions = {two_causes, two_ends}},
      {.name = "tcp_late_threads",
       .processes_max = 0,
       .skip_reason = always,
       .open = open_late(false),
       .exclusions = {threads_cannot_die, threads_leave_together, threads_die_first,
                      threads_die_together, two_causes}},
      {.name = "tcp_late_processes",
       .processes_max = kOneEach,
       .skip_reason = with_all_in_sight,
       .open = open_late(false),
       .exclusions = {two_causes, two_ends}},
      {.name = "tcp_tls_late_processes",
       .processes_max = kOneEach,
       .skip_reason = with_all_in_sight,
       .open = open_late(true),
       .exclusions = {two_causes, two_ends}},
      {.name = "fault_shm_threads",
       .processes_max = 0,
       .skip_reason = always,
       .open = open_fault,
       .exclusions = {threads_leave_together, threads_die_first, threads_die_together}},
      {.name = "fault_shm_processes",
       .processes_max = kOneEach,
       .skip_reason = with_pidfd,
       .open = open_fault,
       .exclusions = {}},
  };
  return backends;
}

}  // namespace sk::cts

namespace sk::testing_support {

Result<Connect> connect_of(const StageSpec& spec) {
  for (const cts::SessionBackend& backend : cts::session_backends()) {
    if (backend.name == spec.backend) return backend.open(spec);
  }
  return error(SK_ERR_INVALID_ARGUMENT, "no backend is named {}", spec.backend);
}

}  // namespace sk::testing_support
