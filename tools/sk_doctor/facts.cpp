#include "tools/sk_doctor/facts.h"

#include <sys/resource.h>
#include <unistd.h>

#include <map>
#include <set>

#include "lib/base/memory_limit.h"
#include "tools/sk_doctor/checks.h"
#include "tools/sk_doctor/variables.h"

namespace sk::doctor {
namespace {

using Ranks = std::vector<int>;
// By what is said, in the order of the first rank that says it.
using Groups = std::vector<std::pair<std::string, Ranks>>;

std::string limit_text(decltype(RLIMIT_NOFILE) which) {
  rlimit limit{};
  if (getrlimit(which, &limit) != 0) return "not known";
  return limit.rlim_cur == RLIM_INFINITY ? "no limit" : std::to_string(limit.rlim_cur);
}

void add_to(Groups* groups, const std::string& value, int rank) {
  for (auto& [said, ranks] : *groups)
    if (said == value) return ranks.push_back(rank);
  groups->push_back({value, {rank}});
}

std::string text_of(const Groups& groups) {
  std::string out;
  for (const auto& [value, ranks] : groups)
    out += fmt::format("{}{}: rank{} {}", out.empty() ? "" : " | ", value,
                       ranks.size() == 1 ? "" : "s", numbers_text(ranks));
  return out;
}

std::string value_at(const Json& facts, const char* group, const std::string& name) {
  const Json* from = &facts;
  if (group != nullptr) {
    const auto found = facts.find(group);
    if (found == facts.end() || !found->is_object()) return "(not set)";
    from = &*found;
  }
  const auto value = from->find(name);
  return value == from->end() || !value->is_string() ? "(not set)" : value->get<std::string>();
}

Groups groups_of(const std::vector<Json>& facts, const char* group, const std::string& name) {
  Groups groups;
  for (size_t rank = 0; rank < facts.size(); ++rank)
    if (facts[rank].is_object()) add_to(&groups, value_at(facts[rank], group, name), int(rank));
  return groups;
}

std::set<std::string> names_in(const std::vector<Json>& facts, const char* group) {
  std::set<std::string> names;
  for (const Json& each : facts) {
    const auto found = each.find(group);
    if (found == each.end() || !found->is_object()) continue;
    for (const auto& [name, value] : found->items()) names.insert(name);
  }
  return names;
}

// Of a rank by what it is: each has its own.
bool is_each_ranks_own(const std::string& name) {
  return name.size() > 3 && (name.ends_with("_FD") || name.ends_with("_FDS"));
}

void compare_machines(const std::vector<Json>& facts, Findings* findings) {
  std::vector<std::pair<Finding, Ranks>> all;
  for (size_t rank = 0; rank < facts.size(); ++rank) {
    const auto theirs = facts[rank].find("findings");
    if (theirs == facts[rank].end() || !theirs->is_array()) continue;
    for (const Json& each : *theirs) {
      if (!each.is_object()) continue;
      const Finding finding = from_json(each);
      const auto same = std::find_if(all.begin(), all.end(), [&](const auto& other) {
        return other.first.id == finding.id && other.first.found == finding.found;
      });
      if (same == all.end()) {
        all.push_back({finding, {int(rank)}});
      } else {
        same->second.push_back(int(rank));
      }
    }
  }
  for (auto& [finding, ranks] : all) {
    std::set<std::string> hosts;
    for (const int rank : ranks) hosts.insert(host_of(facts[size_t(rank)]));
    std::string where;
    for (const std::string& host : hosts) where += (where.empty() ? "" : ", ") + host;
    if (hosts.size() > 4)
      where = fmt::format("{} hosts, {} the first", hosts.size(), *hosts.begin());
    finding.found = fmt::format("rank{} {} ({}): {}", ranks.size() == 1 ? "" : "s",
                                numbers_text(ranks), where, finding.found);
    findings->add(finding);
  }
}

}  // namespace

std::string host_of(const Json& facts) {
  return facts.is_object() ? facts.value("host", "?") : "?";
}

Json own_facts(const Probe& library, const Findings& findings) {
  char name[256] = "";
  if (gethostname(name, sizeof(name) - 1) != 0) name[0] = '\0';
  const Json gpus = library.facts.value("gpus", Json::array());
  const std::string driver = library.facts.value("driver", "");
  Json out = {{"host", printable(name)},
              {"sk", own_version()},
              {"libsk", library.failure.empty() ? library.version : "none: " + library.failure},
              {"isa", library.isa().empty() ? "not known" : library.isa()},
              {"gpus", std::to_string(gpus.size())},
              {"driver", driver.empty() ? "none" : driver},
              {"environment", environment()},
              {"limits",
               {{"cpus", std::to_string(usable_cpus())},
                {"descriptors", limit_text(RLIMIT_NOFILE)},
                {"file-size", limit_text(RLIMIT_FSIZE)},
                {"address-space", limit_text(RLIMIT_AS)},
                {"processes", limit_text(RLIMIT_NPROC)}}},
              {"findings", Json::array()}};
  add_findings(findings, &out);
  return out;
}

void add_findings(const Findings& findings, Json* facts) {
  for (const Finding& each : findings.all())
    if (each.state == State::kLimit || each.state == State::kFault)
      (*facts)["findings"].push_back(to_json(each));
}

void compare_facts(const std::vector<Json>& facts, Findings* findings) {
  size_t same = 0;
  for (const char* name : {"sk", "libsk"}) {
    const Groups groups = groups_of(facts, nullptr, name);
    if (groups.size() > 1) {
      findings->fault(fmt::format("differs.{}", name), text_of(groups),
                      "install one version on all hosts: ranks of different ones do not meet");
    }
    same += groups.size() == 1 ? 1 : 0;
  }
  if (const Groups groups = groups_of(facts, nullptr, "isa"); groups.size() > 1) {
    findings->limit("differs.isa", text_of(groups),
                    "the slowest sets the pace; for equal bits whatever rank computes them set "
                    "SK_CPU_ISA to the least on all ranks");
  } else {
    ++same;
  }
  for (const char* name : {"gpus", "driver"}) {
    const Groups groups = groups_of(facts, nullptr, name);
    if (groups.size() > 1)
      findings->limit(fmt::format("differs.{}", name), text_of(groups),
                      "where ranks are to compute on GPUs, give each host the same (nvidia-smi "
                      "there; CUDA_VISIBLE_DEVICES)");
  }
  for (const std::string& name : names_in(facts, "environment")) {
    // What libsk does not read may differ as it likes; each rank says which names are nearly ours.
    if (is_each_ranks_own(name) || !is_known_variable(name)) continue;
    const Groups groups = groups_of(facts, "environment", name);
    if (groups.size() == 1) continue;
    const std::string advice = fmt::format("set {} to one value on all ranks, or on none", name);
    if (name == "SK_NET_TLS") {
      findings->fault("differs." + name, text_of(groups), advice);
    } else if (name == "SK_NET" || name == "SK_CPU_ISA") {
      findings->info("differs." + name, text_of(groups));  // Which hosts may have their own of.
    } else {
      findings->limit("differs." + name, text_of(groups), advice);
    }
  }
  for (const std::string& name : names_in(facts, "limits")) {
    const Groups groups = groups_of(facts, "limits", name);
    if (groups.size() > 1) findings->info("differs." + name, text_of(groups));
  }
  const Groups hosts = groups_of(facts, nullptr, "host");
  findings->info("hosts", text_of(hosts));
  if (same == 3) findings->ok("same", "sk, libsk and instruction set are the same on all ranks");
  compare_machines(facts, findings);
}

}  // namespace sk::doctor
