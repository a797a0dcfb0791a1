#include "tools/sk_status/jobs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

namespace sk::status {
namespace {

using record::CommView;
using record::Stage;

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
  bool earlier = false;  // Of a start before the present one, which never met.
  bool operator<(const Key& other) const {
    return std::tie(job, id, name, earlier) <
           std::tie(other.job, other.id, other.name, other.earlier);
  }
};

std::string job_of(const Process& process, const CommView& comm) {
  if (!comm.job.empty()) return comm.job;
  if (comm.comm != 0) return fmt::format("communicator {:016x}", comm.comm);
  return fmt::format("process {}", process.view.pid);
}

Key key_of(const Process& process, const CommView& comm) {
  return {job_of(process, comm), comm.comm, comm.name};
}

int64_t began_wall_ns(const Process& process, const CommView& comm, const Now& at) {
  return moment_of(process, comm.began_ns, at).wall_ns;
}

// Of ranks that look for each other: since when those do that live, and who they are.
struct Meeting {
  int64_t began_ns = INT64_MAX;
  std::set<uint32_t> living, dead;

  // A job that is started again has the name that it had, and what died of it before they came is
  // nobody that they wait for. What has died of them may have begun a little earlier, too: so much
  // earlier only in another start, or where one of them had died before.
  bool is_behind(const Process& process, const CommView& comm, const Now& at) const {
    constexpr int64_t kStartNs = 30'000'000'000;
    if (process.life != Life::kEnded || living.empty()) return false;
    // When it was found gone is later than when it went, and may be later than they came.
    const record::ProcessView& view = process.view;
    const bool known = view.end == record::End::kExited || view.end == record::End::kSignaled;
    const int64_t died = known ? view.end_wall_ns : began_wall_ns(process, comm, at);
    const bool again = std::ranges::any_of(dead, [&](uint32_t r) { return living.contains(r); });
    return died < began_ns - (again ? 0 : kStartNs);
  }
};

std::map<Key, Meeting> meetings_in(const Look& look) {
  std::map<Key, Meeting> meetings;
  for (const ProcessPtr& process : look.processes) {
    for (const CommView& comm : process->view.comms) {
      if (comm.comm != 0) continue;
      Meeting& meeting = meetings[key_of(*process, comm)];
      const bool lives = process->life != Life::kEnded;
      (lives ? meeting.living : meeting.dead).insert(comm.rank);
      if (lives)
        meeting.began_ns = std::min(meeting.began_ns, began_wall_ns(*process, comm, look.at));
    }
  }
  return meetings;
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
std::vector<Job> group(const Look& look) {
  const std::map<Key, Meeting> meetings = meetings_in(look);
  std::map<Key, Comm> comms;
  std::map<Key, std::string> launchers;
  for (const ProcessPtr& process : look.processes) {
    for (const CommView& view : process->view.comms) {
      Key key = key_of(*process, view);
      if (view.comm == 0) key.earlier = meetings.at(key).is_behind(*process, view, look.at);
      const int64_t began = began_wall_ns(*process, view, look.at);
      Comm& comm = comms[key];
      comm.name = view.name;
      comm.id = view.comm;
      comm.world_size = std::max(comm.world_size, view.world_size);
      comm.began_wall_ns = comm.rows.empty() ? began : std::min(comm.began_wall_ns, began);
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
  for (auto& [name, job] : jobs) {
    std::ranges::stable_sort(job.comms, {}, [](const Comm& comm) {
      return std::make_pair(comm.ended(), comm.began_wall_ns);
    });
    out.push_back(std::move(job));
  }
  std::ranges::stable_sort(
      out, {}, [](const Job& job) { return std::make_pair(job.ended(), -job.began_wall_ns()); });
  return out;
}

}  // namespace

bool Comm::ended() const {
  return std::ranges::all_of(rows, [](const RankRow& row) {
    return row.process == nullptr || row.process->life == Life::kEnded;
  });
}

bool Job::ended() const {
  return std::ranges::all_of(comms, [](const Comm& comm) { return comm.ended(); });
}

int64_t Job::began_wall_ns() const {
  int64_t first = INT64_MAX;
  for (const Comm& comm : comms) first = std::min(first, comm.began_wall_ns);
  return first;
}

const char* state_word(State state) {
  constexpr const char* kWords[] = {"meeting", "in_call", "outside",   "over",   "freed",
                                    "stopped", "ended",   "invisible", "missing"};
  return kWords[size_t(state)];
}

Found find_jobs(const record::Settings& settings, const record::EnvLookup& env) {
  Found found{look_at_all(settings, env), {}};
  found.jobs = group(found.look);
  return found;
}

void keep_jobs(const std::string& name, std::vector<Job>& jobs) {
  std::erase_if(jobs, [&](const Job& job) { return !job.name.starts_with(name); });
}

Forgotten forget(const Look& look, const std::string& job, bool unseen) {
  Forgotten out;
  std::set<std::string> folders;
  const auto take = [&](const std::string& path, Life life) {
    if (life == Life::kRunning || life == Life::kStopped) return;
    if (life == Life::kInvisible && !unseen) {
      ++out.unseen;
      return;
    }
    out.removed += unlink(path.c_str()) == 0;
    folders.insert(path.substr(0, path.rfind('/')));
  };
  for (const ProcessPtr& process : look.processes) {
    const auto& comms = process->view.comms;
    const bool its = std::ranges::any_of(
        comms, [&](const CommView& comm) { return job_of(*process, comm).starts_with(job); });
    if (job.empty() || its) take(process->path, process->life);
  }
  for (const Unread& each : look.unread)
    if (job.empty()) take(each.path, each.life);
  for (const std::string& folder : folders) rmdir(folder.c_str());  // Where it was the last.
  return out;
}

}  // namespace sk::status
