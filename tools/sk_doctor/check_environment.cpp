// Variables of libsk: those that are set, and names that it does not know.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "lib/base/status.h"
#include "tools/sk_doctor/checks.h"

namespace sk::doctor {
namespace {

// All that docs/env.md has and that begin so.
constexpr std::array<std::string_view, 24> kKnown = {
    "SK_BOOTSTRAP",       "SK_JOB_ID",      "SK_MASTER_PORT", "SK_LISTEN",     "SK_JOB_SECRET_FD",
    "SK_JOB_SECRET_FILE", "SK_JOB_SECRET",  "SK_NET",         "SK_PORT_RANGE", "SK_NET_TLS",
    "SK_WORKERS",         "SK_GPU_PAIRS",   "SK_CPU_ISA",     "SK_LIBRARY",    "SK_LOG",
    "SK_NRANKS",          "SK_PROGRAM",     "SK_WORKER_FD",   "SK_PRELOAD",    "SK_PRELOAD_LIMIT_S",
    "SK_TEMPLATE",        "SK_TEMPLATE_FD", "SK_CAPTURE_FDS", "SK_LEASE_S"};

// How many letters two names differ in, added, left out or changed.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t corner = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = corner + (a[i - 1] != b[j - 1] ? 1 : 0);
      corner = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, changed}));
    }
  }
  return row[b.size()];
}

std::string nearest(std::string_view name) {
  const auto* best = std::min_element(kKnown.begin(), kKnown.end(), [&](auto a, auto b) {
    return distance(a, name) < distance(b, name);
  });
  return distance(*best, name) <= 3 ? std::string(*best) : "";
}

}  // namespace

bool is_known_variable(std::string_view name) {
  return std::find(kKnown.begin(), kKnown.end(), name) != kKnown.end();
}

Json environment() {
  Json all = Json::object();
  for (char** it = environ; *it != nullptr; ++it) {
    const std::string_view line = *it;
    const size_t equals = std::min(line.find('='), line.size());
    const std::string name(line.substr(0, equals));
    if (name.rfind("SK_", 0) != 0 || equals == line.size()) continue;
    // Whatever another program keeps in a variable of its own may be a secret, and ours that are.
    const bool withheld = !is_known_variable(name) || name.rfind("SK_JOB_SECRET", 0) == 0;
    all[name] = withheld ? "(set)" : printable(std::string(line.substr(equals + 1)));
  }
  return all;
}

void check_environment(Findings* findings) {
  const Json set = environment();
  std::string known;
  for (const auto& [name, value] : set.items()) {
    if (is_known_variable(name)) {
      known += fmt::format("{}{}={}", known.empty() ? "" : " ", name, value.get<std::string>());
      continue;
    }
    const std::string near = nearest(name);
    const std::string found = fmt::format("{} is set, which libsk does not read", name);
    if (near.empty()) {
      findings->info("environment", found);  // Another program's, perhaps.
    } else {
      findings->limit("environment", found,
                      fmt::format("is {} meant? docs/env.md has all variables", near));
    }
  }
  findings->info("environment", known.empty() ? "no variable of libsk is set" : known);
}

}  // namespace sk::doctor
