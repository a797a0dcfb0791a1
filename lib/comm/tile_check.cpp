#include "lib/comm/tile_check.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lib/algo/user_tile.h"

namespace sk {
namespace {

constexpr std::byte kCanary{0xC7};

// What a child has come to, in memory that its parent sees.
struct Report {
  enum Found : uint32_t { kNothing, kRefused, kOutside, kElsewhere, kGap };
  uint32_t done;  // Tasks.
  Found found;
  uint32_t region;
  int64_t byte;  // From the region's begin.
  bool ended;
};

// Memory for one region of one task: its end is the begin of a page that nobody may touch.
struct Guarded {
  std::byte* map = nullptr;
  uint64_t map_bytes = 0;
  std::byte* begin = nullptr;
  uint64_t bytes = 0;
};

class Mapping {
 public:
  static Result<Mapping> make(uint64_t bytes) {
    void* map = mmap(nullptr, std::max<uint64_t>(1, bytes), PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) return system_error("mmap for what a tile writes");
    return Mapping(map, bytes);
  }
  Mapping(Mapping&& other) noexcept
      : map_(std::exchange(other.map_, nullptr)), bytes_(other.bytes_) {}
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping() {
    if (map_ != nullptr) munmap(map_, std::max<uint64_t>(1, bytes_));
  }
  std::byte* data() const { return static_cast<std::byte*>(map_); }
  uint64_t bytes() const { return bytes_; }

 private:
  Mapping(void* map, uint64_t bytes) : map_(map), bytes_(bytes) {}
  void* map_;
  uint64_t bytes_;
};

// Of the child alone, which has one thread. No memory is allocated there: another thread of the
// parent may have been inside the allocator.
Report* child_report = nullptr;
Guarded child_regions[kTileRegionsMax];

void on_fault(int, siginfo_t* info, void*) {
  const auto* at = static_cast<const std::byte*>(info->si_addr);
  child_report->found = Report::kElsewhere;
  for (uint32_t i = 0; i < kTileRegionsMax; ++i) {
    const Guarded& each = child_regions[i];
    if (each.map == nullptr || at < each.map || at >= each.map + each.map_bytes) continue;
    child_report->found = Report::kOutside;
    child_report->region = i;
    child_report->byte = at - each.begin;
  }
  _exit(1);
}

class Child {
 public:
  Child(const UserTile& tile, const Call& call, const Plan& plan, std::byte poison,
        const std::array<std::byte*, OpDesc::kOperandsMax>& results)
      : tile_(tile),
        call_(call),
        plan_(plan),
        poison_(poison),
        results_(results),
        page_bytes_(uint64_t(sysconf(_SC_PAGESIZE))) {}

  void run() {
    static std::byte stack[1 << 16];
    stack_t other = {};
    other.ss_sp = stack;
    other.ss_size = sizeof stack;
    sigaltstack(&other, nullptr);
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (const int signal : {SIGSEGV, SIGBUS}) sigaction(signal, &action, nullptr);
    const RankPlan& part = plan_.ranks[0];
    for (const Task& task : part.tasks) {
      if (!run_task(part, task)) _exit(1);
      ++child_report->done;
    }
    child_report->ended = true;
    _exit(0);
  }

 private:
  uint32_t operand_of(const Region& region) const { return plan_.buffers[region.buffer].operand; }
  static uint64_t bytes_of(const Region& region) {
    return region.row_bytes == 0 ? 0 : (region.rows - 1) * region.pitch + region.row_bytes;
  }

  bool run_task(const RankPlan& part, const Task& task) {
    const std::span<const Region> regions = part.regions_of(task);
    std::byte* addresses[kTileRegionsMax];
    TileArgs args{};
    args.regions = regions.data();
    args.params = part.params_of(task).data();
    args.region_count = task.region_count;
    for (uint32_t i = 0; i < regions.size(); ++i) {
      if (!place(regions, i)) return false;
      addresses[i] = child_regions[i].begin;
      args.pointers[i] = &addresses[i];
    }
    if (!tile_.own(tile_, args)) return child_report->found = Report::kRefused, false;
    for (uint32_t i = 0; i < regions.size(); ++i) {
      if (regions[i].access != kWrite) continue;
      if (!gaps_are_whole(regions[i], i)) return false;
      keep(regions[i], i);
    }
    for (Guarded& each : child_regions) {
      if (each.map_bytes > 0) munmap(each.map, each.map_bytes);
      each = {};
    }
    return true;
  }

  // In place two regions are the same bytes.
  bool place(std::span<const Region> regions, uint32_t number) {
    const Region& region = regions[number];
    Guarded& here = child_regions[number];
    for (uint32_t other = 0; other < number; ++other) {
      if (regions[other].buffer != region.buffer || regions[other].access == region.access)
        continue;
      here = child_regions[other];
      here.map_bytes = 0;  // It is the other's.
      if (region.access == kRead) fill(region, here);
      return mprotect(here.map + page_bytes_, child_regions[other].map_bytes - 2 * page_bytes_,
                      PROT_READ | PROT_WRITE) == 0;
    }
    here.bytes = bytes_of(region);
    const uint64_t inside = align_up(std::max<uint64_t>(1, here.bytes), page_bytes_);
    here.map_bytes = inside + 2 * page_bytes_;
    void* map = mmap(nullptr, here.map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) return here = {}, false;
    here.map = static_cast<std::byte*>(map);
    if (mprotect(here.map + page_bytes_, inside, PROT_READ | PROT_WRITE) != 0) return false;
    here.begin = here.map + page_bytes_ + inside - here.bytes;
    std::memset(here.map + page_bytes_, int(kCanary), inside);
    fill(region, here);
    return region.access != kRead || mprotect(here.map + page_bytes_, inside, PROT_READ) == 0;
  }

  // What is read has the call's elements, what is written none.
  void fill(const Region& region, const Guarded& here) const {
    const auto* from = static_cast<const std::byte*>(call_.operands[operand_of(region)].data);
    for (uint64_t row = 0; row < region.rows && here.bytes > 0; ++row) {
      std::byte* to = here.begin + row * region.pitch;
      if (region.access == kRead) {
        std::memcpy(to, from + region.offset + row * region.pitch, region.row_bytes);
      } else {
        std::memset(to, int(poison_), region.row_bytes);
      }
    }
  }

  bool gaps_are_whole(const Region& region, uint32_t number) const {
    const Guarded& here = child_regions[number];
    const auto broken = [&](const std::byte* from, const std::byte* to) {
      for (; from < to; ++from) {
        if (*from == kCanary) continue;
        child_report->found = Report::kGap;
        child_report->region = number;
        child_report->byte = from - here.begin;
        return true;
      }
      return false;
    };
    if (broken(here.map + page_bytes_, here.begin)) return false;
    for (uint64_t row = 0; row + 1 < region.rows && here.bytes > 0; ++row) {
      const std::byte* begin = here.begin + row * region.pitch;
      if (broken(begin + region.row_bytes, begin + region.pitch)) return false;
    }
    return true;
  }

  void keep(const Region& region, uint32_t number) const {
    const Guarded& here = child_regions[number];
    for (uint64_t row = 0; row < region.rows && here.bytes > 0; ++row) {
      std::memcpy(results_[number] + region.offset + row * region.pitch,
                  here.begin + row * region.pitch, region.row_bytes);
    }
  }

  const UserTile& tile_;
  const Call& call_;
  const Plan& plan_;
  const std::byte poison_;
  const std::array<std::byte*, OpDesc::kOperandsMax>& results_;
  const uint64_t page_bytes_;  // 4 KiB on x86, up to 64 KiB on AArch64.
};

class Check {
 public:
  Check(const UserTile& tile, const Call& call, const Interruption& interruption)
      : tile_(tile), call_(call), interruption_(interruption) {}

  Status run() {
    const auto limit = call_.timeout_ns != 0 ? call_.timeout_ns : kTileCheckNs;
    deadline_ns_ = now_ns() + limit;
    SK_ASSIGN_OR_RETURN(const Results whole, results_of(0, std::byte{0xA5}));
    SK_ASSIGN_OR_RETURN(const Results again, results_of(0, std::byte{0x5A}));
    SK_RETURN_IF_ERROR(compare(whole, again, ""));
    if (tile_.text().over == TileOver::kAll) return {};
    for (const uint64_t part : {uint64_t{1}, uint64_t{7}}) {
      SK_ASSIGN_OR_RETURN(const Results parts, results_of(part, std::byte{0xA5}));
      SK_RETURN_IF_ERROR(compare(whole, parts, fmt::format(" in tiles of {} and in one", part)));
    }
    return {};
  }

 private:
  using Results = std::vector<std::vector<std::byte>>;  // By operand.

  template <typename... Args>
  Status refuse(fmt::format_string<Args...> format, Args&&... args) const {
    return error(SK_ERR_TILE, "tile {} in {}: {}", tile_.text().name, describe(call_.op),
                 fmt::format(format, std::forward<Args>(args)...));
  }
  const std::string& name(uint32_t region) const { return tile_.text().regions[region].name; }

  // Of large arrays few tiles are tried in small parts.
  Result<Results> results_of(uint64_t part, std::byte poison) {
    constexpr uint64_t kTasksMax = 4096;
    SK_ASSIGN_OR_RETURN(const Plan plan, algo::cut_user_tile(call_.op, part, kTasksMax));
    uint64_t bytes = sizeof(Report);
    std::array<uint64_t, OpDesc::kOperandsMax> at{};
    for (uint32_t i = 0; i < tile_.text().regions.size(); ++i) {
      at[i] = bytes;
      if (tile_.text().regions[i].role == Role::kOut) bytes += call_.operands[i].bytes;
    }
    SK_ASSIGN_OR_RETURN(const Mapping shared, Mapping::make(bytes));
    std::array<std::byte*, OpDesc::kOperandsMax> results{};
    for (uint32_t i = 0; i < tile_.text().regions.size(); ++i) results[i] = shared.data() + at[i];
    auto* report = new (shared.data()) Report{};
    std::memset(shared.data() + sizeof(Report), int(poison), bytes - sizeof(Report));
    SK_RETURN_IF_ERROR(run_child(plan, poison, results, report));
    Results out(tile_.text().regions.size());
    for (uint32_t i = 0; i < out.size(); ++i) {
      if (tile_.text().regions[i].role != Role::kOut) continue;
      out[i].assign(results[i], results[i] + call_.operands[i].bytes);
    }
    return out;
  }

  Status run_child(const Plan& plan, std::byte poison,
                   const std::array<std::byte*, OpDesc::kOperandsMax>& results, Report* report) {
    Child child(tile_, call_, plan, poison, results);
    const pid_t pid = fork();
    if (pid < 0) return system_error("fork for the child that tries a tile");
    if (pid == 0) {
      child_report = report;
      child.run();
    }
    int status = 0;
    SK_RETURN_IF_ERROR(await(pid, &status));
    return verdict(plan, *report, status);
  }

  static int64_t now_ns() {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1'000'000'000 + now.tv_nsec;
  }

  static void end(pid_t pid, int* status) {
    kill(pid, SIGKILL);
    while (waitpid(pid, status, 0) < 0 && errno == EINTR) {
    }
  }

  Status await(pid_t pid, int* status) const {
    int64_t ask_ns = now_ns() + Interruption::kAskNs;
    for (;;) {
      const pid_t ended = waitpid(pid, status, WNOHANG);
      // Where somebody else takes ended children, its report says how it went.
      if (ended == pid || (ended < 0 && errno == ECHILD)) return {};
      if (ended < 0 && errno != EINTR)
        return system_error("waitpid for the child that tries a tile");
      const int64_t now = now_ns();
      if (now > ask_ns) {
        const pid_t process = getpid();
        const bool due = interruption_.is_due();
        if (getpid() != process) {
          return error(SK_ERR_FORKED,
                       "tile {} in {}: the interruption's function forked, and its "
                       "child came back from it: the call is the parent's",
                       tile_.text().name, describe(call_.op));
        }
        if (due) {
          end(pid, status);
          return error(SK_ERR_ABORTED, "tile {} in {}: interrupted", tile_.text().name,
                       describe(call_.op));
        }
        ask_ns = now + Interruption::kAskNs;
      }
      if (now > deadline_ns_) {
        end(pid, status);
        return error(SK_ERR_TIMEOUT, "tile {} in {}: its function has not returned in time",
                     tile_.text().name, describe(call_.op));
      }
      constexpr struct timespec kNap { 0, 200'000 };
      nanosleep(&kNap, nullptr);
    }
  }

  Status verdict(const Plan& plan, const Report& report, int status) const {
    if (report.ended) return {};
    const auto tasks = plan.ranks[0].tasks.size();
    const std::string where = fmt::format("tile {} of {}", report.done + 1, tasks);
    if (report.found == Report::kRefused) return refuse("{}: its function did not return 1", where);
    if (report.found == Report::kElsewhere) {
      return refuse("{} touches memory that is in none of its regions", where);
    }
    if (report.found == Report::kNothing) {
      if (WIFSIGNALED(status))
        return refuse("{} ended its process by signal {}", where, WTERMSIG(status));
      return refuse("{} ended its process, or there was no memory for it", where);
    }
    const Task& task = plan.ranks[0].tasks[report.done];
    const Region& region = plan.ranks[0].regions_of(task)[report.region];
    const auto bytes = int64_t((region.rows - 1) * region.pitch + region.row_bytes);
    const std::string of = fmt::format("{} ({} rows of {} bytes there)", name(report.region),
                                       region.rows, region.row_bytes);
    if (report.byte < 0) return refuse("{} touches byte {} before {}", where, -report.byte, of);
    if (report.byte >= bytes) {
      return refuse("{} touches byte {} behind the end of {}", where, report.byte - bytes, of);
    }
    if (report.found == Report::kGap) return refuse("{} writes between the rows of {}", where, of);
    return refuse("{} writes {}, which is read", where, name(report.region));
  }

  Status compare(const Results& a, const Results& b, const std::string& how) const {
    for (uint32_t i = 0; i < a.size(); ++i) {
      for (size_t byte = 0; byte < a[i].size(); ++byte) {
        if (a[i][byte] == b[i][byte]) continue;
        if (!is_element(i, byte)) continue;
        const std::string at = place_of(i, byte);
        if (!how.empty()) {
          return refuse("{} is not the same{}: it depends on what the effect does not say", at,
                        how);
        }
        if (a[i][byte] == std::byte{0xA5} && b[i][byte] == std::byte{0x5A}) {
          return refuse("{} is not written", at);
        }
        return refuse(
            "{} is not the same twice: it depends on what was in the result, or on what "
            "lasts between calls",
            at);
      }
    }
    return {};
  }
  struct Pitch {
    uint64_t row_bytes, pitch, element;
  };
  Pitch pitch_of(uint32_t operand) const {
    const Schema& schema = tile_.schema();
    const uint64_t element = dtype_bytes(call_.op.type(operand));
    const Field stride = schema.stride_field(operand);
    if (!stride) return {call_.operands[operand].bytes, call_.operands[operand].bytes, element};
    const uint64_t apart = uint64_t(call_.op[stride]) * element;
    const uint64_t rest = apart == 0 ? 0 : call_.operands[operand].bytes % apart;
    return {rest == 0 ? apart : rest, apart, element};
  }
  // Not what lies between two rows.
  bool is_element(uint32_t operand, uint64_t byte) const {
    const Pitch is = pitch_of(operand);
    return is.pitch == 0 || byte % is.pitch < is.row_bytes;
  }
  std::string place_of(uint32_t operand, uint64_t byte) const {
    const Pitch is = pitch_of(operand);
    const uint64_t row = is.pitch == 0 ? 0 : byte / is.pitch;
    const uint64_t column = (byte - row * is.pitch) / is.element;
    return fmt::format("element ({}, {}) of {}", row, column, name(operand));
  }

  const UserTile& tile_;
  const Call& call_;
  const Interruption& interruption_;
  int64_t deadline_ns_ = 0;
};

}  // namespace

Status check_tile(const UserTile& tile, const Call& call, const Interruption& interruption) {
  return Check(tile, call, interruption).run();
}

}  // namespace sk
