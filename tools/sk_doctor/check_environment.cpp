// Variables of libsk: those that are set, and names that it does not know.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "tools/sk_doctor/checks.h"
#include "tools/sk_doctor/variables.h"

namespace sk::doctor {
namespace {

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

// Of a short name most letters may not be other ones.
size_t near_enough(std::string_view name) { return std::min<size_t>(3, (name.size() - 1) / 3); }

std::string nearest(std::string_view name) {
  const auto all = variables();
  const auto best = std::min_element(all.begin(), all.end(), [&](const auto& a, const auto& b) {
    return distance(a.name, name) < distance(b.name, name);
  });
  return distance(best->name, name) <= near_enough(name) ? std::string(best->name) : "";
}

}  // namespace

Json environment() {
  Json all = Json::object();
  for (char** it = environ; *it != nullptr; ++it) {
    const std::string_view line = *it;
    const size_t equals = std::min(line.find('='), line.size());
    const std::string name(line.substr(0, equals));
    if (name.rfind("SK_", 0) != 0 || equals == line.size()) continue;
    // Whatever another program keeps in a variable of its own may be a secret, and ours that are.
    const bool withheld = !is_known_variable(name) || is_secret(name);
    all[name] = withheld ? "(set)" : printable(std::string(line.substr(equals + 1)));
  }
  return all;
}

void check_environment(Findings* findings, Run run) {
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
  for (const Variable& variable : variables()) {
    const char* value = std::getenv(variable.name);
    if (value == nullptr || variable.check == nullptr) continue;
    if (is_secret(variable.name) && run == Run::kRanksHere) continue;  // Who meet without one.
    const Status status = variable.check(value);
    if (status.ok()) continue;
    const std::string advice =
        fmt::format("unset {}, or set it as docs/env.md has it", variable.name);
    if (is_read_in(variable.reader, run)) {
      findings->fault("environment", status.message(), advice);
    } else {
      findings->limit("environment", status.message(), advice);
    }
  }
}

}  // namespace sk::doctor
