#include "lib/control/host/facts.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <climits>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace sk::control {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The number behind `name` at the start of a line; 0 without one.
uint64_t number_after(const std::string& text, const std::string& name) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string word;
    uint64_t value = 0;
    if (words >> word >> value && word == name) return value;
  }
  return 0;
}

// Where this process's memory control group is in the file system; "" where there is none.
std::string memory_group() {
  std::istringstream lines(read_file("/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("0::")) {
      const std::string path = "/sys/fs/cgroup" + line.substr(3);
      if (access((path + "/memory.events").c_str(), R_OK) == 0) return path + "/memory.events";
    }
    const size_t at = line.find(":memory:");
    if (at != std::string::npos) {
      const std::string path = "/sys/fs/cgroup/memory" + line.substr(at + 8);
      if (access((path + "/memory.oom_control").c_str(), R_OK) == 0)
        return path + "/memory.oom_control";
    }
  }
  return "";
}

}  // namespace

HostFacts host_facts() {
  HostFacts facts;
  char name[HOST_NAME_MAX + 1] = {};
  if (gethostname(name, HOST_NAME_MAX) == 0) facts.name = name;
  facts.controller_pid = getpid();
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof cpus, &cpus) == 0)
    facts.cpus = static_cast<uint32_t>(CPU_COUNT(&cpus));
  const std::string memory = read_file("/proc/meminfo");
  facts.memory_bytes = number_after(memory, "MemTotal:") * 1024;
  facts.memory_available_bytes = number_after(memory, "MemAvailable:") * 1024;
  return facts;
}

uint64_t resident_bytes(pid_t pid) {
  std::istringstream pages(read_file(fmt::format("/proc/{}/statm", pid)));
  uint64_t total = 0, resident = 0;
  if (!(pages >> total >> resident)) return 0;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

char own_thread_state(pid_t tid) {
  const std::string stat = read_file(fmt::format("/proc/self/task/{}/stat", tid));
  const size_t end = stat.rfind(") ");
  return end == std::string::npos || end + 2 >= stat.size() ? char(0) : stat[end + 2];
}

char thread_state(pid_t pid, std::string_view name) {
  std::error_code failed;
  const std::filesystem::directory_iterator threads(fmt::format("/proc/{}/task", pid), failed);
  if (failed) return 0;
  for (const auto& thread : threads) {
    // "TID (NAME) STATE ...", where a name may hold anything.
    const std::string stat = read_file(thread.path().string() + "/stat");
    const size_t begin = stat.find('('), end = stat.rfind(") ");
    if (begin == std::string::npos || end == std::string::npos || end + 2 >= stat.size()) continue;
    if (std::string_view(stat).substr(begin + 1, end - begin - 1) == name) return stat[end + 2];
  }
  return 0;
}

uint64_t oom_kills_in(const std::string& events) { return number_after(events, "oom_kill"); }

uint64_t oom_kills() {
  static const std::string path = memory_group();
  return path.empty() ? 0 : oom_kills_in(read_file(path));
}

}  // namespace sk::control
