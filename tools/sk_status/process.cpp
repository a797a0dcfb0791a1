#include "tools/sk_status/process.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>

#include "lib/base/process_name.h"
#include "lib/record/ended.h"

namespace sk::status {
namespace {

int64_t clock_ns(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return int64_t(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// 'T' is stopped, 't' held by a debugger, 'Z' has ended and waits for its parent; 0: it cannot be
// read.
char state_of(int64_t pid) {
  const std::string line = first_line(fmt::format("/proc/{}/stat", pid));
  const size_t name_end = line.rfind(')');  // The name before it may hold anything.
  return name_end == std::string::npos || name_end + 2 >= line.size() ? '\0' : line[name_end + 2];
}

// Its first thread may have ended before the others.
bool has_other_threads(int64_t pid) {
  std::error_code gone;
  const std::filesystem::directory_iterator all(fmt::format("/proc/{}/task", pid), gone);
  return !gone && std::distance(begin(all), end(all)) > 1;
}

bool is_over(int64_t pid, char state) {
  return state == 'X' || (state == 'Z' && !has_other_threads(pid));
}

bool has_line(const std::string& path, const std::string& wanted) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line == wanted) return true;
  return false;
}

// What is frozen looks as if it slept. Lines are NUMBER:CONTROLLERS:PATH.
bool is_frozen(int64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/cgroup", pid));
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string kind = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (kind == "freezer" &&
        first_line("/sys/fs/cgroup/freezer" + path + "/freezer.state") == "FROZEN")
      return true;
    if (!kind.empty()) continue;
    for (const char* root : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"})
      if (has_line(root + path + "/cgroup.events", "frozen 1")) return true;
  }
  return false;
}

struct FileId {
  uint64_t device = 0, number = 0;
  bool operator==(const FileId&) const = default;
};
std::optional<FileId> file_id(const std::string& path) {
  struct stat what = {};
  if (stat(path.c_str(), &what) != 0) return std::nullopt;
  return FileId{what.st_dev, what.st_ino};
}

// A writer maps its record until it has removed it, or has become another program. True also where
// that cannot be seen. By the file's name, which is the process's own: a container has the folder
// elsewhere.
bool may_map(int64_t pid, const std::string& record) {
  std::ifstream maps(fmt::format("/proc/{}/maps", pid));
  const std::string name = record.substr(record.rfind('/'));
  bool any = false;
  for (std::string line; std::getline(maps, line); any = true)
    if (line.find(name) != std::string::npos) return true;
  return !any;
}

void judge(Process& process, record::Processes& processes) {
  const record::ProcessView& view = process.view;
  const record::SeenProcess seen = processes.find({view.space, view.pid, view.start_time});
  process.pid = seen.seen == record::Seen::kAlive ? seen.pid : view.pid;
  const char state = seen.seen == record::Seen::kAlive ? state_of(seen.pid) : '\0';
  if (view.end == record::End::kExited || view.end == record::End::kSignaled) {
    process.life = Life::kEnded;
  } else if (seen.seen == record::Seen::kInvisible) {
    process.life = Life::kInvisible;
  } else if (seen.seen == record::Seen::kEnded || is_over(seen.pid, state)) {
    process.life = Life::kEnded;
  } else if (state == 'T' || state == 't') {
    process.life = Life::kStopped;
    process.halt = state == 'T' ? Halt::kSignal : Halt::kDebugger;
  } else {
    process.life = is_frozen(seen.pid) ? Life::kStopped : Life::kRunning;
    process.halt = Halt::kFrozen;
  }
}

// Null where the record is another one by now, or none.
std::shared_ptr<Process> look_at(const FileId& id, std::string path, record::ProcessView view,
                                 record::Processes& processes) {
  auto process = std::make_shared<Process>();
  process->view = std::move(view);
  process->path = std::move(path);
  judge(*process, processes);
  const bool lives = process->life == Life::kRunning || process->life == Life::kStopped;
  if (!lives || may_map(process->pid, process->path)) return process;
  if (file_id(process->path) != id) return nullptr;
  process->program = first_line(fmt::format("/proc/{}/comm", process->pid));
  judge(*process, processes);  // Who ends has lost its maps before.
  if (process->life == Life::kEnded)
    process->program.clear();
  else
    process->life = Life::kEnded;
  return process;
}

// Its writer has not come to say what it is.
bool is_unfinished(const std::string& path) {
  uint64_t magic = 0;
  std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(&magic), sizeof(magic));
  return magic == 0;
}

Unread unread(std::string path, const std::string& file, std::string sentence,
              record::Processes& processes) {
  Unread out{std::move(path), std::move(sentence)};
  const auto name = record::parse_file_name(file);
  if (!name) return out;
  const record::SeenProcess seen = processes.find(*name);
  if (seen.seen == record::Seen::kInvisible) return out;
  const bool lives = seen.seen == record::Seen::kAlive && !is_over(seen.pid, state_of(seen.pid));
  out.life = lives ? Life::kRunning : Life::kEnded;
  out.sentence += lives ? fmt::format("; its process {} runs", seen.pid)
                        : fmt::format("; its process {} has ended", name->pid);
  return out;
}

}  // namespace

Now now() { return {clock_ns(CLOCK_MONOTONIC), clock_ns(CLOCK_REALTIME), own_process_space()}; }

Look look_at_all(const record::Settings& settings, const record::EnvLookup& env) {
  Look out;
  record::Processes seen;
  for (const std::string& folder : record::folders(settings, env)) {
    const Status fit = record::check_folder(folder);
    if (fit.code() == SK_ERR_PEER_LOST) continue;
    if (!fit.ok()) {
      out.refused.push_back(fit.message());
      continue;
    }
    for (const std::string& file : record::list_records(folder)) {
      const std::string path = fmt::format("{}/{}", folder, file);
      const FileId id = file_id(path).value_or(FileId());
      Result<record::ProcessView> view = record::read_record(path);
      if (view.ok()) {
        if (auto process = look_at(id, path, std::move(*view), seen))
          out.processes.push_back(std::move(process));
      } else if (view.status().code() != SK_ERR_PEER_LOST) {
        Unread each = unread(path, file, view.status().message(), seen);
        const bool is_made = each.life == Life::kRunning && is_unfinished(path);
        if (!is_made) out.unread.push_back(std::move(each));
      }
    }
  }
  out.at = now();
  return out;
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

}  // namespace sk::status
