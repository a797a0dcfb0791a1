#include "tools/sk_kernel/rank_count.h"

#include <glob.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "lib/base/world.h"

namespace sk::kernel {
namespace {

// The GPUs that a rank would see: CUDA_VISIBLE_DEVICES where it is set, else the device files.
int count_gpus() {
  glob_t found{};
  const bool any = glob("/dev/nvidia[0-9]*", 0, nullptr, &found) == 0;
  int count = any ? static_cast<int>(found.gl_pathc) : 0;
  globfree(&found);
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) return count;
  const std::string list = visible;
  if (list.empty() || list == "-1" || list == "NoDevFiles") return 0;
  return std::min(count, static_cast<int>(std::count(list.begin(), list.end(), ',')) + 1);
}

int count_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return sched_getaffinity(0, sizeof cores, &cores) == 0 ? std::max(1, CPU_COUNT(&cores)) : 1;
}

}  // namespace

Machine this_machine() {
  const auto variable = [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  return {variable, count_gpus(), count_cores()};
}

Result<int32_t> parse_rank_count(const std::string& where, const std::string& text) {
  int32_t count = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (failure != std::errc() || end != text.data() + text.size() || count < 1 ||
      count > kWorldSizeMax)
    return error(SK_ERR_INVALID_ARGUMENT, "{} is \"{}\"; it must be a number of ranks, 1 to {}",
                 where, text, kWorldSizeMax);
  return count;
}

Result<int32_t> choose_rank_count(const Machine& machine, const std::string& installed) {
  if (const auto value = machine.variable("SK_NRANKS"))
    return parse_rank_count("SK_NRANKS", *value);
  if (!installed.empty()) return parse_rank_count("--ranks", installed);
  return machine.gpus > 0 ? machine.gpus : machine.cores;
}

}  // namespace sk::kernel
