#include "bench/gpu/health.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "bench/gpu/rounds.h"

namespace sk::cuda {
namespace {

// Of nvml.h: kinds of clocks, a sensor, and what holds clocks back.
constexpr int kClockSm = 1, kClockMemory = 2, kSensorGpu = 0;
constexpr struct {
  unsigned long long bit;
  const char* name;
} kReasons[] = {{0x01, "idle"},
                {0x02, "clocks set"},
                {0x04, "power cap"},
                {0x08, "hardware slowdown"},
                {0x10, "sync boost"},
                {0x20, "software thermal slowdown"},
                {0x40, "thermal slowdown"},
                {0x80, "power brake"},
                {0x100, "display clocks"}};

template <typename Member>
std::string median_of(const std::vector<Health::Reading>& readings, Member member) {
  std::vector<unsigned> values;
  for (const Health::Reading& each : readings)
    if (each.*member != 0) values.push_back(each.*member);
  if (values.empty()) return "null";
  std::nth_element(values.begin(), values.begin() + int64_t(values.size() / 2), values.end());
  return std::to_string(values[values.size() / 2]);
}

}  // namespace

struct Health::Library {
  int (*init)() = nullptr;
  int (*handle)(unsigned index, void** device) = nullptr;
  int (*clock)(void* device, int kind, unsigned* mhz) = nullptr;
  int (*power)(void* device, unsigned* milliwatts) = nullptr;
  int (*temperature)(void* device, int sensor, unsigned* celsius) = nullptr;
  int (*reasons)(void* device, unsigned long long* bits) = nullptr;
  int (*shutdown)() = nullptr;
};

Health::Health(const char* library) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    absent_ = dlerror();
    return;
  }
  auto loaded = std::make_unique<Library>();
  const auto load = [&](auto& slot, const char* name) {
    slot = reinterpret_cast<std::remove_reference_t<decltype(slot)>>(dlsym(handle, name));
    if (slot == nullptr && absent_.empty()) absent_ = fmt::format("{} has no {}", library, name);
  };
  load(loaded->init, "nvmlInit_v2");
  load(loaded->handle, "nvmlDeviceGetHandleByIndex_v2");
  load(loaded->clock, "nvmlDeviceGetClockInfo");
  load(loaded->power, "nvmlDeviceGetPowerUsage");
  load(loaded->temperature, "nvmlDeviceGetTemperature");
  load(loaded->reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
  load(loaded->shutdown, "nvmlShutdown");
  if (!absent_.empty()) return;
  if (const int status = loaded->init(); status != 0) {
    absent_ = fmt::format("nvmlInit: status {}", status);
    return;
  }
  if (const int status = loaded->handle(0, &device_); status != 0) {
    absent_ = fmt::format("nvmlDeviceGetHandleByIndex: status {}", status);
    loaded->shutdown();
    return;
  }
  library_ = loaded.release();
}

Health::~Health() {
  if (library_ == nullptr) return;
  library_->shutdown();
  delete library_;
}

Health::Reading Health::read() const {
  Reading now;
  if (library_ == nullptr) return now;
  if (library_->clock(device_, kClockSm, &now.sm_mhz) != 0) now.sm_mhz = 0;
  if (library_->clock(device_, kClockMemory, &now.memory_mhz) != 0) now.memory_mhz = 0;
  if (library_->power(device_, &now.milliwatts) != 0) now.milliwatts = 0;
  if (library_->temperature(device_, kSensorGpu, &now.celsius) != 0) now.celsius = 0;
  if (library_->reasons(device_, &now.reasons) != 0) now.reasons = 0;
  return now;
}

std::string as_json(const Health& health, const std::vector<Health::Reading>& readings) {
  if (!health.absent().empty()) return fmt::format("{{\"absent\":{}}}", quoted(health.absent()));
  unsigned long long all = 0;
  for (const Health::Reading& each : readings) all |= each.reasons;
  std::vector<std::string> names;
  for (const auto& [bit, name] : kReasons)
    if ((all & bit) != 0) names.push_back(quoted(name));
  using Reading = Health::Reading;
  return fmt::format(
      "{{\"sm_mhz\":{},\"memory_mhz\":{},\"milliwatts\":{},\"celsius\":{},\"held_back_by\":[{}]}}",
      median_of(readings, &Reading::sm_mhz), median_of(readings, &Reading::memory_mhz),
      median_of(readings, &Reading::milliwatts), median_of(readings, &Reading::celsius),
      fmt::join(names, ","));
}

}  // namespace sk::cuda
