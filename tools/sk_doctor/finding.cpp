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

std::string printable(const std::string& text) {
  std::string out;
  for (const char c : text) {
    out += uint8_t(c) < 0x20 || c == 0x7f ? ' ' : c;
    // So are U+0080 to U+009F to a terminal: of two bytes, the first 0xc2.
    const size_t size = out.size();
    if (size > 1 && uint8_t(out[size - 2]) == 0xc2 && uint8_t(c) >= 0x80 && uint8_t(c) < 0xa0)
      out.replace(size - 2, 2, " ");
  }
  // What is no UTF-8 becomes question marks, as JSON's own writer would have it.
  const std::string quoted = Json(out).dump(-1, ' ', false, Json::error_handler_t::replace);
  return Json::parse(quoted).get<std::string>();
}

std::string bytes_text(uint64_t bytes) {
  if (bytes == UINT64_MAX) return "no limit";
  constexpr std::array<const char*, 5> kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  double value = double(bytes);
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} bytes", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string numbers_text(const std::vector<int>& numbers) {
  std::string out;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    out += fmt::format("{}{}", out.empty() ? "" : ",", numbers[i]);
    if (last > i) out += fmt::format("-{}", numbers[last]);
    i = last + 1;
  }
  return out;
}

}  // namespace sk::doctor
