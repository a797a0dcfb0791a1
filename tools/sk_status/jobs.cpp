#include "tools/sk_status/jobs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>

#include "lib/base/process_name.h"
#include "lib/record/ended.h"

namespace sk::status {
namespace {

using record::CommView;
using record::Stage;
using ProcessPtr = std::shared_ptr<const Process>;

int64_t clock_ns(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return int64_t(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

// 'T' is stopped, 'Z' has ended and waits for its parent; 0: it cannot be read.
char state_of(int64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');  // The name before it may hold anything.
  return name_end == std::string::npos || name_end + 2 >= line.size() ? '\0' : line[name_end + 2];
}

// Its first thread may have ended before the others.
bool has_other_threads(int64_t pid) {
  std::error_code gone;
  const std::filesystem::directory_iterator all(fmt::format("/proc/{}/task", pid), gone);
  return !gone && std::distance(begin(all), end(all)) > 1;
}

void look_at(Process& process, record::Processes& processes) {
  const record::ProcessView& view = process.view;
  const record::SeenProcess seen = processes.find({view.space, view.pid, view.start_time});
  process.pid = seen.seen == record::Seen::kAlive ? seen.pid : view.pid;
  char state = seen.seen == record::Seen::kAlive ? state_of(seen.pid) : '\0';
  if (state == 'Z' && has_other_threads(seen.pid)) state = 'S';
  if (view.end == record::End::kExited || view.end == record::End::kSignaled) {
    process.life = Life::kEnded;
  } else if (seen.seen == record::Seen::kInvisible) {
    process.life = Life::kInvisible;
  } else if (seen.seen == record::Seen::kEnded || state == 'Z' || state == 'X') {
    process.life = Life::kEnded;
  } else {
    process.life = state == 'T' || state == 't' ? Life::kStopped : Life::kRunning;
  }
}

// Nobody uses it any more, and nothing went wrong with it.
bool is_history(const CommView& comm) { return comm.stage == Stage::kFreed; }

State state_of(const Process& process, const RankRow& row) {
  if (process.life == Life::kEnded) return State::kEnded;
  if (process.life == Life::kInvisible) return State::kInvisible;
  if (row.comm->stage == Stage::kFreed) return State::kFreed;
  if (process.life == Life::kStopped) return State::kStopped;
  if (row.comm->stage == Stage::kMeeting) return State::kMeeting;
  if (row.comm->stage == Stage::kOver) return State::kOver;
  return row.in_call || row.entering ? State::kInCall : State::kOutside;
}

RankRow row_of(const ProcessPtr& process, const CommView& comm) {
  RankRow row;
  row.rank = comm.rank;
  row.process = process;
  row.comm = &comm;
  if (!comm.calls.empty()) row.call = &comm.calls.back();
  row.in_call = row.call != nullptr && row.call->state == record::CallState::kEntered;
  row.entering = comm.writing;
  for (const record::Call& call : comm.calls) {
    if (!call.pair) row.entered = std::max(row.entered.value_or(0), call.seq);
  }
  if (comm.calls.empty() && comm.stage != Stage::kMeeting) row.entered = 0;
  row.state = state_of(*process, row);
  return row;
}

// What rows of one communicator have in common. Before its ranks have met they share no number.
struct Key {
  std::string job;
  uint64_t id;
  std::string name;
  bool operator<(const Key& other) const {
    return std::tie(job, id, name) < std::tie(other.job, other.id, other.name);
  }
};

std::string job_of(const Process& process, const CommView& comm) {
  if (!comm.job.empty()) return comm.job;
  if (comm.comm != 0) return fmt::format("communicator {:016x}", comm.comm);
  return fmt::format("process {}", process.view.pid);
}

// Which rank's word is taken where several say that they are one: who lives, then who came last.
bool is_better(const RankRow& one, const RankRow& other) {
  const auto order = [](const RankRow& row) {
    return std::make_tuple(row.process->life != Life::kEnded, !is_history(*row.comm),
                           row.comm->began_ns);
  };
  return order(one) > order(other);
}

void add_row(Comm& comm, RankRow row) {
  for (RankRow& known : comm.rows) {
    if (known.rank != row.rank) continue;
    if (is_better(row, known)) known = std::move(row);
    return;
  }
  comm.rows.push_back(std::move(row));
}

// Ranks without a record: on other hosts, where somebody knows that, else missing here.
void add_missing(Comm& comm) {
  const CommView* knows = nullptr;
  std::vector<bool> there(comm.world_size);
  for (const RankRow& row : comm.rows) {
    if (row.rank < there.size()) there[row.rank] = true;
    if (!row.comm->here.empty()) knows = row.comm;
  }
  for (uint32_t rank = 0; rank < comm.world_size; ++rank) {
    if (there[rank]) continue;
    if (knows != nullptr && !knows->is_here(rank)) {
      comm.elsewhere.push_back(int(rank));
    } else {
      RankRow missing;
      missing.rank = rank;
      comm.rows.push_back(std::move(missing));
    }
  }
  std::sort(comm.rows.begin(), comm.rows.end(),
            [](const RankRow& a, const RankRow& b) { return a.rank < b.rank; });
}

void find_behind(Comm& comm) {
  std::optional<uint64_t> least, most;
  for (const RankRow& row : comm.rows) {
    if (row.comm == nullptr || row.state == State::kFreed || row.state == State::kMeeting) continue;
    if (!row.entered) return;  // It has called with single ranks alone for so long.
    least = std::min(least.value_or(UINT64_MAX), *row.entered);
    most = std::max(most.value_or(0), *row.entered);
  }
  if (!least || *least == *most) return;
  comm.least = *least;
  comm.most = *most;
  for (const RankRow& row : comm.rows) {
    if (row.comm != nullptr && row.state != State::kFreed && row.entered == comm.least)
      comm.behind.push_back(int(row.rank));
  }
}

// Those whose ranks still look for each other may be at one of which others have made theirs: a
// rank that lacks there stands here as well, and its row says in which it is.
std::vector<Job> group(const std::vector<ProcessPtr>& processes) {
  std::map<Key, Comm> comms;
  std::map<Key, std::string> launchers;
  for (const ProcessPtr& process : processes) {
    for (const CommView& view : process->view.comms) {
      const Key key{job_of(*process, view), view.comm, view.name};
      Comm& comm = comms[key];
      comm.name = view.name;
      comm.id = view.comm;
      comm.world_size = std::max(comm.world_size, view.world_size);
      launchers[key] = view.launcher;
      add_row(comm, row_of(process, view));
    }
  }
  std::map<std::string, Job> jobs;
  for (auto& [key, comm] : comms) {
    // Freed by all who are here: it has nothing to say.
    if (std::ranges::all_of(comm.rows, [](const RankRow& row) { return is_history(*row.comm); }) &&
        std::ranges::none_of(comm.rows, [](const RankRow& row) {
          return row.process->life == Life::kEnded && row.comm->over_code != 0;
        })) {
      continue;
    }
    add_missing(comm);
    find_behind(comm);
    Job& job = jobs[key.job];
    job.name = key.job;
    job.launcher = launchers[key];
    job.comms.push_back(std::move(comm));
  }
  std::vector<Job> out;
  for (auto& [name, job] : jobs) out.push_back(std::move(job));
  return out;
}

}  // namespace

bool Comm::ended() const {
  return std::ranges::all_of(rows, [](const RankRow& row) {
    return row.process == nullptr || row.process->life == Life::kEnded;
  });
}

Now now() { return {clock_ns(CLOCK_MONOTONIC), clock_ns(CLOCK_REALTIME), own_process_space()}; }

const char* state_word(State state) {
  constexpr const char* kWords[] = {"meeting", "in_call", "outside",   "over",   "freed",
                                    "stopped", "ended",   "invisible", "missing"};
  return kWords[size_t(state)];
}

Found find_jobs(const record::Settings& settings, const record::EnvLookup& env) {
  Found found;
  std::vector<ProcessPtr> processes;
  record::Processes seen;
  for (const std::string& folder : record::folders(settings, env)) {
    const Status fit = record::check_folder(folder);
    if (fit.code() == SK_ERR_PEER_LOST) continue;
    if (!fit.ok()) {
      found.unreadable.push_back(fit.message());
      continue;
    }
    found.folders.push_back(folder);
    for (const std::string& file : record::list_records(folder)) {
      const std::string path = fmt::format("{}/{}", folder, file);
      Result<record::ProcessView> view = record::read_record(path);
      if (!view.ok() && view.status().code() != SK_ERR_PEER_LOST)
        found.unreadable.push_back(view.status().message());
      if (!view.ok()) continue;
      auto process = std::make_shared<Process>();
      process->view = std::move(*view);
      process->path = path;
      look_at(*process, seen);
      processes.push_back(std::move(process));
    }
  }
  found.at = now();  // Behind all that is told of.
  found.jobs = group(processes);
  return found;
}

void keep_jobs(const std::string& name, std::vector<Job>& jobs) {
  std::erase_if(jobs, [&](const Job& job) { return !job.name.starts_with(name); });
}

// A process of another time namespace has another CLOCK_MONOTONIC; the clock of the day is one.
Moment moment_of(const Process& process, int64_t monotonic_ns, const Now& at) {
  const record::ProcessView& view = process.view;
  Moment moment;
  if (view.space == at.space) {
    moment.ago_s = double(at.monotonic_ns - monotonic_ns) * 1e-9;
    moment.wall_ns = at.wall_ns - (at.monotonic_ns - monotonic_ns);
  } else {
    moment.wall_ns = view.began_wall_ns + (monotonic_ns - view.began_ns);
    moment.ago_s = double(at.wall_ns - moment.wall_ns) * 1e-9;
  }
  moment.ago_s = std::max(0.0, moment.ago_s);
  return moment;
}

size_t forget_ended(const std::vector<Job>& jobs) {
  std::vector<std::string> paths;
  for (const Job& job : jobs) {
    for (const Comm& comm : job.comms) {
      for (const RankRow& row : comm.rows) {
        if (row.process != nullptr && row.process->life == Life::kEnded)
          paths.push_back(row.process->path);
      }
    }
  }
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  size_t removed = 0;
  for (const std::string& path : paths) removed += unlink(path.c_str()) == 0;
  for (const std::string& path : paths) rmdir(path.substr(0, path.rfind('/')).c_str());
  return removed;
}

}  // namespace sk::status
