#include "tools/sk_doctor/finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace sk::doctor {
namespace {

constexpr std::array<const char*, 4> kStates = {"ok", "info", "limit", "fault"};

}  // namespace

const char* state_name(State state) { return kStates[size_t(state)]; }

void Findings::add(Finding finding) {
  finding.found = printable(finding.found);
  finding.advice = printable(finding.advice);
  all_.push_back(std::move(finding));
}

size_t Findings::count(State state) const {
  return size_t(std::count_if(all_.begin(), all_.end(),
                              [&](const Finding& each) { return each.state == state; }));
}

Json to_json(const Finding& finding) {
  return {{"id", finding.id},
          {"state", state_name(finding.state)},
          {"found", finding.found},
          {"advice", finding.advice}};
}

Finding from_json(const Json& json) {
  const auto state = std::find(kStates.begin(), kStates.end(), json.value("state", ""));
  return {json.value("id", ""),
          state == kStates.end() ? State::kInfo : State(state - kStates.begin()),
          json.value("found", ""), json.value("advice", "")};
}

std::string to_text(const Findings& findings) {
  std::string out;
  for (const Finding& each : findings.all()) {
    out += fmt::format("{:<6} {:<15} {}\n", state_name(each.state), each.id, each.found);
    if (!each.advice.empty()) out += fmt::format("{:<22} -> {}\n", "", each.advice);
  }
  const size_t faults = findings.count(State::kFault), limits = findings.count(State::kLimit);
  if (faults + limits == 0) return out + "\nNothing stands in the way.\n";
  return out + fmt::format("\n{} fault{}, {} limit{}.\n", faults, faults == 1 ? "" : "s", limits,
                           limits == 1 ? "" : "s");
}

std::string bytes_text(uint64_t bytes) {
  if (bytes == UINT64_MAX) return "no limit";
  constexpr std::array<const char*, 5> kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  double value = double(bytes);
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} bytes", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace sk::doctor
