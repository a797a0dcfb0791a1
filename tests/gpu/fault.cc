#include "tests/gpu/fault.h"

#include <fmt/format.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "cuda/watch/records.h"
#include "tests/devhost/planted.h"

namespace sk::cuda {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// The words of `text` between its '@'s; the last one takes the rest.
std::array<std::string, 3> parts_of(const std::string& text) {
  std::array<std::string, 3> parts;
  size_t begin = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const size_t end = i + 1 < parts.size() ? text.find('@', begin) : std::string::npos;
    parts[i] = text.substr(begin, end == std::string::npos ? end : end - begin);
    if (end == std::string::npos) break;
    begin = end + 1;
  }
  return parts;
}

}  // namespace

void plant_fault(FakeDriver& fake) {
  const std::string wish = variable("SK_FAKE_FAULT");
  if (wish.empty()) return;
  const auto [kind, step, file] = parts_of(wish);
  if (step != variable("SK_GPU_STEP")) return;
  if (!file.empty() && !std::filesystem::remove(file)) return;
  if (kind == "hang") {
    fake.hang_next_launch();
  } else if (kind == "fail") {
    fake.fail(Call::cuLaunchKernelEx, abi::kUnknown);
  } else if (kind == "poison") {
    fake.crash_next_launch(abi::kIllegalAddress);
  } else if (kind == "kill") {
    fake.at_next_launch([] { std::raise(SIGKILL); });
  } else if (kind == "lose") {
    devhost::loses_arrival_of_warp = int(kWatchedWorkWarp);
  } else if (kind == "mute") {
    devhost::planted.no_post = true;
  } else {
    throw std::runtime_error(fmt::format(
        "SK_FAKE_FAULT is {}; hang, fail, poison, kill, lose or mute, @ and a step are due", wish));
  }
}

}  // namespace sk::cuda
