#include "lib/topo/host.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <fstream>
#include <string_view>

namespace sk::topo {
namespace {

std::string_view trim(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

// The value of the first line "NAME : value".
std::string field_of(const std::string& path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon != std::string::npos && trim(std::string_view(line).substr(0, colon)) == name)
      return std::string(trim(std::string_view(line).substr(colon + 1)));
  }
  return "";
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out + '"';
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, HOST_NAME_MAX) == 0 ? name : "";
}

int usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 0;
}

}  // namespace

std::string host_facts(const HostSources& sources) {
  // Arm's kernels name no model.
  const std::string cpu = field_of(sources.proc + "/cpuinfo", "model name");
  const std::string memory = field_of(sources.proc + "/meminfo", "MemTotal");  // "24 kB"
  const GpuFacts nvidia = ask_nvml(sources.nvml);
  std::string gpus;
  for (const Gpu& gpu : nvidia.gpus)
    gpus += fmt::format("{}{{\"name\": {}, \"memory_bytes\": {}}}", gpus.empty() ? "" : ", ",
                        quoted(gpu.name), gpu.memory_bytes);
  return fmt::format(
      "{{\"host\": {}, \"cpu\": {}, \"cores\": {}, \"memory_bytes\": {}, \"gpus\": [{}], "
      "\"driver\": {}, \"cuda\": {}}}",
      quoted(host_name()), quoted(cpu), usable_cores(),
      std::strtoull(memory.c_str(), nullptr, 10) * 1024, gpus, quoted(nvidia.driver),
      quoted(nvidia.cuda));
}

}  // namespace sk::topo
