// A rank of a job: what all ranks of it see of each other, told by rank 0.
#include "tools/sk_doctor/job.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "tools/sk_doctor/checks.h"
#include "tools/sk_doctor/facts.h"
#include "tools/sk_doctor/meeting.h"
#include "tools/sk_doctor/modes.h"

namespace sk::doctor {
namespace {

constexpr double kClocksApartS = 1;  // From where files and logs of hosts come out of order.
constexpr useconds_t kFarewellUs = 3'000'000;

// What of this rank's machine may stand in its job's way. Before its ranks meet, for that may fail
// by what is found here.
struct Own {
  explicit Own(const Identity& identity) : library(check_rank(&identity, &findings)) {
    check_environment(&findings, identity.can_meet_here() ? Run::kRanksHere : Run::kRanksOfHosts);
    if (identity.can_meet_here()) return;
    check_network(&findings);
    check_ports(&identity, &findings);
    check_tls(&findings);
  }
  Findings findings;
  Probe library;
};

Status compare_clocks(Meeting& meeting, Job* job) {
  SK_ASSIGN_OR_RETURN(const Meeting::Clocks clocks, meeting.compare_clocks());
  size_t worst = 0;
  for (size_t rank = 0; rank < clocks.ahead_s.size(); ++rank)
    if (std::abs(clocks.ahead_s[rank]) > std::abs(clocks.ahead_s[worst])) worst = rank;
  const double ahead_s = clocks.ahead_s[worst], sure_s = clocks.give_or_take_s;
  const std::string found =
      std::abs(ahead_s) <= sure_s
          ? fmt::format("clocks of the day agree within {:.3g} ms", sure_s * 1e3)
          : fmt::format(
                "rank {}'s clock of the day is {:.3g} ms {} of rank 0's, give or take {:.3g}",
                worst, std::abs(ahead_s) * 1e3, ahead_s > 0 ? "ahead" : "behind", sure_s * 1e3);
  if (std::abs(ahead_s) - sure_s > kClocksApartS) {
    job->findings.limit("clocks", found, "let NTP set the clocks (timedatectl set-ntp true)");
  } else {
    job->findings.info("clocks", found);
  }
  return {};
}

// Hosts of one name are told apart by their first rank.
void name_hosts_apart(const std::vector<int>& first_of, std::vector<Json>* facts) {
  std::map<std::string, std::set<int>> hosts_of;
  for (size_t rank = 0; rank < facts->size(); ++rank)
    hosts_of[host_of((*facts)[rank])].insert(first_of[rank]);
  for (size_t rank = 0; rank < facts->size(); ++rank) {
    Json& each = (*facts)[rank];
    const std::string name = host_of(each);
    if (each.is_object() && hosts_of[name].size() > 1)
      each["host"] = fmt::format("{} of rank {}", name, first_of[rank]);
  }
}

Status examine(Meeting& meeting, const Identity& identity, Json facts, const Probe& library,
               Job* job) {
  if (identity.local_rank <= 0) {  // Of one rank of a host, where the others wait for it longest.
    Findings gpu;
    check_gpu(library, &gpu);
    add_findings(gpu, &facts);
  }
  SK_ASSIGN_OR_RETURN(std::vector<Json> all, meeting.gather(facts));
  name_hosts_apart(meeting.host_of(), &all);
  compare_facts(all, &job->findings);
  std::vector<std::string> hosts;
  for (const Json& each : all) hosts.push_back(host_of(each));
  job->more["ranks"] = all;
  SK_RETURN_IF_ERROR(compare_clocks(meeting, job));
  return exchange_among_all(meeting, hosts, job);
}

std::string advice_for(const Status& status, bool met) {
  switch (status.code()) {
    case SK_ERR_INVALID_ARGUMENT:
    case SK_ERR_TRUST:
    case SK_ERR_SYSTEM:
      return "set right what the sentence names; docs/env.md has the variables";
    default:
      return met ? "look at the output and host of the rank that is named (dmesg: out of memory), "
                   "and at the network between it and rank 0"
                 : "where ranks were refused, set right what the sentence says of them; else look "
                   "at the output and host of each that did not come, and whether it reaches rank "
                   "0 (firewall, MASTER_ADDR)";
  }
}

// As if all that is not known had not been tried: what programs ask for is always there.
Json nothing_known(const Identity& identity, const Json& own) {
  Json ranks = Json::array();
  for (int rank = 0; rank < identity.world_size; ++rank)
    ranks.push_back(rank == identity.rank ? own : Json());
  return {{"world_size", identity.world_size},
          {"ranks", ranks},
          {"pairs", Json::array()},
          {"all_reached", false}};
}

}  // namespace

int be_rank(const Options& options, const Identity& identity) {
  Job job;
  const std::string who =
      fmt::format("rank {} of {} ({})", identity.rank, identity.world_size, identity.launcher);
  const Own own(identity);
  const Json facts = own_facts(own.library, own.findings);
  job.more = nothing_known(identity, facts);
  auto meeting = Meeting::join(options.timeout_s, identity.can_meet_here());
  Status status = meeting.ok() ? Status() : std::move(meeting.status());
  if (status.ok()) {
    job.findings.ok("meeting",
                    fmt::format("all {} ranks of {} came", identity.world_size, identity.launcher));
    status = examine(meeting.value(), identity, facts, own.library, &job);
  } else {
    for (const Finding& each : own.findings.all()) job.findings.add(each);
    if (!identity.one_host) check_master(&job.findings);
  }
  if (!status.ok()) {
    job.findings.fault("meeting", fmt::format("{}: {}", who, status.message()),
                       advice_for(status, meeting.ok()));
  }
  int result = job.findings.faulty() ? 1 : 0;
  if (identity.rank == 0) {
    result = report(options, job.findings, job.more, job.table);
  } else if (!status.ok()) {
    std::fprintf(stderr, "sk doctor: %s: %s\n", who.c_str(), printable(status.message()).c_str());
  }
  // Launchers end a job at the first rank that fails: rank 0 is to have printed before.
  if (status.ok()) {
    const auto printed = meeting.value().gather(Json(result));
    if (printed.ok() && printed.value()[0].is_number()) result = printed.value()[0].get<int>();
  } else if (identity.rank != 0) {
    usleep(kFarewellUs);
  }
  return result;
}

}  // namespace sk::doctor
