#include "tools/sk_kernel/usage.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <utility>

#include "tools/sk_kernel/content.h"

namespace sk::kernel {
namespace {

// Exact memory takes the kernel up to a millisecond a process, in which no cell is served: of many
// ranks some are measured each time, the others as they were last.
constexpr int kExactEachTime = 16;

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The numbers in `text`, up to the first word that is none.
std::vector<uint64_t> numbers_in(const std::string& text) {
  std::istringstream in(text);
  std::vector<uint64_t> numbers;
  for (uint64_t number = 0; in >> number;) numbers.push_back(number);
  return numbers;
}

// Of lines such as "Pss:  123 kB", in bytes.
std::map<std::string, uint64_t> sizes_in(const std::string& text) {
  std::map<std::string, uint64_t> sizes;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const auto numbers = numbers_in(line.substr(colon + 1));
    if (!numbers.empty()) sizes[line.substr(0, colon)] = numbers[0] * 1024;
  }
  return sizes;
}

// Of the process: its own time and that of children that have ended.
uint64_t ticks_in(const std::string& stat) {
  const size_t name_end = stat.rfind(") ");
  if (name_end == std::string::npos || stat.size() < name_end + 4) return 0;
  // Behind the state: parent, group, session, terminal, its group, flags, four of faults, times.
  std::istringstream in(stat.substr(name_end + 4));
  std::vector<int64_t> fields;
  for (int64_t field = 0; in >> field;) fields.push_back(field);
  if (fields.size() < 14) return 0;
  return static_cast<uint64_t>(fields[10] + fields[11] + fields[12] + fields[13]);
}

uint64_t resident_bytes(const std::string& folder) {
  const auto pages = numbers_in(read_file(folder + "/statm"));
  return pages.size() < 2 ? 0 : pages[1] * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// Pages that processes share are counted in parts.
uint64_t proportional_bytes(const std::string& folder) {
  const auto sizes = sizes_in(read_file(folder + "/smaps_rollup"));
  const auto pss = sizes.find("Pss");
  return pss != sizes.end() ? pss->second : resident_bytes(folder);
}

double rounded(double percent) { return std::round(percent * 10) / 10; }

}  // namespace

// The process and what it has started.
void UsageMeter::add(int64_t pid, Sum* sum) {
  if (std::find(counted_.begin(), counted_.end(), pid) != counted_.end()) return;
  counted_.push_back(pid);
  const std::string folder = proc_ + "/" + std::to_string(pid);
  const std::string stat = read_file(folder + "/stat");
  if (stat.empty()) return;
  const uint64_t ticks = ticks_in(stat);
  const auto [known, is_new] = processes_.try_emplace(pid);
  Process& process = known->second;
  if (!is_new && seconds_ > 0 && ticks > process.ticks)
    sum->cpu_percent += 100.0 * static_cast<double>(ticks - process.ticks) /
                        static_cast<double>(sysconf(_SC_CLK_TCK)) / seconds_;
  process.ticks = ticks;
  process.seen = round_;
  // Those that were measured longest ago are first in turn.
  const bool in_turn =
      process.round == 0 || process.round + processes_.size() / kExactEachTime < round_ + 1;
  if (in_turn && exact_left_ > 0) {
    --exact_left_;
    process.bytes = proportional_bytes(folder);
    process.round = round_;
  } else if (process.round == 0) {
    process.bytes = resident_bytes(folder);
  }
  sum->bytes += process.bytes;
  for (const uint64_t child :
       numbers_in(read_file(folder + "/task/" + std::to_string(pid) + "/children")))
    add(static_cast<int64_t>(child), sum);
}

void UsageMeter::add_host(Json* reply) {
  // user nice system idle iowait irq softirq steal
  std::istringstream in(read_file(proc_ + "/stat"));
  std::string name;
  in >> name;
  uint64_t all = 0, idle = 0, value = 0;
  for (int field = 0; field < 8 && in >> value; ++field) {
    all += value;
    idle += field == 3 || field == 4 ? value : 0;
  }
  const uint64_t busy = all - idle;
  if (host_all_ > 0 && all > host_all_ && busy >= host_busy_)
    (*reply)["host_cpu_percent"] = rounded(100.0 * static_cast<double>(busy - host_busy_) /
                                           static_cast<double>(all - host_all_));
  host_all_ = all;
  host_busy_ = busy;
  (*reply)["cpu_count"] = sysconf(_SC_NPROCESSORS_ONLN);
  auto sizes = sizes_in(read_file(proc_ + "/meminfo"));
  const uint64_t total = sizes["MemTotal"], available = sizes["MemAvailable"];
  const uint64_t used = total - std::min(total, available);
  (*reply)["host_virtual_memory"] = {
      {"total", total},
      {"available", available},
      {"percent", total == 0 ? 0.0 : rounded(100.0 * double(used) / double(total))},
      {"used", used},
      {"free", sizes["MemFree"]},
      {"active", sizes["Active"]},
      {"inactive", sizes["Inactive"]},
      {"buffers", sizes["Buffers"]},
      {"cached", sizes["Cached"] + sizes["SReclaimable"]},
      {"shared", sizes["Shmem"]},
      {"slab", sizes["Slab"]}};
}

Json UsageMeter::measure(const Json& status, std::chrono::steady_clock::time_point now) {
  seconds_ = round_ == 0 ? 0 : std::chrono::duration<double>(now - last_).count();
  last_ = now;
  ++round_;
  exact_left_ = kExactEachTime;
  counted_.clear();
  char host_name[HOST_NAME_MAX + 1] = {};
  gethostname(host_name, HOST_NAME_MAX);
  Json reply = {{"hostname", host_name}, {"pid", getpid()}};
  Sum all;
  std::map<std::string, std::pair<Sum, Json>> hosts;
  const auto of_ranks = status.is_object() ? status.find("ranks") : status.end();
  for (const Json& rank : of_ranks != status.end() ? *of_ranks : Json::array()) {
    if (!rank.is_object() || rank.value("pid", int64_t{0}) <= 0) continue;
    Sum sum;
    add(rank["pid"].get<int64_t>(), &sum);
    auto& [of_host, ranks] = hosts[text_of(rank, "host")];
    of_host.cpu_percent += sum.cpu_percent;
    of_host.bytes += sum.bytes;
    ranks.push_back({{"rank", rank.value("rank", int64_t{0})},
                     {"pid", rank["pid"]},
                     {"kernel_cpu", rounded(sum.cpu_percent)},
                     {"kernel_memory", sum.bytes}});
  }
  // What is not the ranks': this process, the controller, the template that ranks come from.
  const Json of_status = status.is_object() ? status : Json::object();
  const Json of_controller = of_status.value("host", Json::object());
  auto& here = hosts[of_controller.is_object() && of_controller.contains("name")
                         ? text_of(of_controller, "name")
                         : std::string(host_name)];
  add(getpid(), &here.first);
  if (of_controller.is_object() && of_controller.value("controller_pid", int64_t{0}) > 0)
    add(of_controller["controller_pid"].get<int64_t>(), &here.first);
  reply["hosts"] = Json::array();
  for (auto& [name, host] : hosts) {
    auto& [sum, ranks] = host;
    all.cpu_percent += sum.cpu_percent;
    all.bytes += sum.bytes;
    reply["hosts"].push_back({{"hostname", name},
                              {"kernel_cpu", rounded(sum.cpu_percent)},
                              {"kernel_memory", sum.bytes},
                              {"ranks", ranks.is_array() ? ranks : Json::array()}});
  }
  reply["kernel_cpu"] = rounded(all.cpu_percent);
  reply["kernel_memory"] = all.bytes;
  add_host(&reply);
  std::erase_if(processes_, [&](const auto& process) { return process.second.seen != round_; });
  return reply;
}

}  // namespace sk::kernel
