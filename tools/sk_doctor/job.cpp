// A rank of a job: what all ranks of it see of each other, told by rank 0.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tools/sk_doctor/checks.h"
#include "tools/sk_doctor/facts.h"
#include "tools/sk_doctor/meeting.h"
#include "tools/sk_doctor/modes.h"
#include "tools/sk_doctor/reached.h"

namespace sk::doctor {
namespace {

constexpr double kClocksApartS = 1;  // From where files and logs of hosts come out of order.
constexpr size_t kFailuresTold = 20;
constexpr int kAloneRanksMax = 64;  // More pairs, one after the other, would take too long.
constexpr useconds_t kFarewellUs = 3'000'000;

struct Job {
  Findings findings;
  Json more = Json::object();
  std::string table;
};

// What of this rank's machine may stand in its job's way.
Probe check_own(Findings* findings) {
  Probe library = check_rank(findings);
  check_environment(findings);
  return library;
}

std::string advice_for(const PairSeen& pair) {
  if (pair.small_came)
    return "small messages came and large ones did not: compare the MTUs on the way (ip link; ping "
           "-M do -s 1472 HOST), or set one that all of it can carry (ip link set DEV mtu 1400)";
  return "let TCP pass between the two (firewall, SK_PORT_RANGE), or name a network that both are "
         "in with SK_NET";
}

void tell_pairs(const std::vector<PairSeen>& pairs, const std::vector<std::string>& hosts,
                Findings* findings) {
  size_t failures = 0, untried = 0;
  for (const PairSeen& pair : pairs) {
    untried += pair.tried ? 0 : 1;
    if (pair.failure.empty() || ++failures > kFailuresTold) continue;
    findings->fault("pair",
                    fmt::format("rank {} ({}) and rank {} ({}): {}", pair.a, hosts[size_t(pair.a)],
                                pair.b, hosts[size_t(pair.b)], pair.failure),
                    advice_for(pair));
  }
  if (failures > kFailuresTold) {
    findings->fault("pair", fmt::format("{} more pairs failed", failures - kFailuresTold),
                    "sk doctor --json names them all");
  }
  if (untried > 0) {
    findings->limit("pairs", fmt::format("{} of {} pairs were not tried", untried, pairs.size()),
                    "set right what failed, and ask again");
  }
  if (failures + untried == 0) {
    findings->ok("pairs", fmt::format("1 MiB between all {} pairs came as it was sent; {}",
                                      pairs.size(), speeds_text(pairs)));
  }
}

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

Result<std::vector<Meeting::Row>> rows_of(Meeting& meeting, const Meeting::Row& mine) {
  SK_ASSIGN_OR_RETURN(const std::vector<Json> all, meeting.gather(to_json(mine)));
  std::vector<Meeting::Row> rows;
  for (const Json& each : all) rows.push_back(row_from(each));
  return rows;
}

// Through one communicator; where that cannot be had or does not last, through one of each pair.
Status exchange_among_all(Meeting& meeting, const std::vector<std::string>& hosts, Job* job) {
  const auto library = Library::load(chosen_library());
  Meeting::Row mine;
  mine.with.resize(hosts.size());
  // Who cannot load it would keep all others waiting.
  SK_ASSIGN_OR_RETURN(const std::vector<Json> loaded, meeting.gather(Json(library.ok())));
  const bool all_loaded = std::all_of(loaded.begin(), loaded.end(),
                                      [](const Json& each) { return each == Json(true); });
  if (all_loaded) mine = meeting.exchange_all(library.value(), false);
  auto gathered = rows_of(meeting, mine);
  if (!gathered.ok()) {
    if (!mine.broken.empty())  // Else what the ranks did last would be lost with their meeting.
      job->findings.fault("communicator",
                          fmt::format("of all ranks, as this one says: {}", mine.broken),
                          "look at the rank that the next line names");
    return std::move(gathered.status());
  }
  std::vector<Meeting::Row> rows = std::move(gathered).value();
  std::string broken;
  int by = -1;
  for (size_t rank = 0; rank < rows.size() && broken.empty(); ++rank) {
    broken = rows[rank].broken;
    by = int(rank);
  }
  // Between hosts one pair that fails keeps all from a communicator, and hides the others.
  const bool by_pairs = all_loaded && !broken.empty() && !meeting.one_host() &&
                        meeting.world_size() <= kAloneRanksMax;
  if (by_pairs) {
    SK_ASSIGN_OR_RETURN(const Meeting::Row alone, meeting.exchange_pairs(library.value()));
    SK_ASSIGN_OR_RETURN(rows, rows_of(meeting, alone));
  }
  const std::vector<PairSeen> pairs = pairs_of(rows);
  if (!broken.empty()) {
    job->findings.fault(
        "communicator", fmt::format("of all ranks, as rank {} says: {}", by, broken),
        by_pairs ? "set right what fails below, where each pair had a communicator of its own"
                 : "docs/troubleshooting.md has the sentence");
  } else if (all_loaded) {
    job->findings.ok("communicator", fmt::format("of all {} ranks stands", hosts.size()));
  }
  tell_pairs(pairs, hosts, &job->findings);
  const bool failed = std::any_of(pairs.begin(), pairs.end(), [](const PairSeen& pair) {
    return !pair.tried || !pair.failure.empty();
  });
  if (meeting.world_size() <= kMatrixRanksMax)
    job->table = matrix_text(pairs, meeting.world_size());
  job->more["pairs"] = Json::array();
  for (const PairSeen& pair : pairs) {
    const bool outlier = !pair.tried || !pair.failure.empty();
    if (outlier || meeting.world_size() <= kMatrixRanksMax)
      job->more["pairs"].push_back(to_json(pair, hosts));
  }
  job->more["all_reached"] = !failed;
  return {};
}

Status examine(Meeting& meeting, Job* job) {
  Findings own;
  const Probe library = check_own(&own);
  if (!meeting.one_host()) {
    check_network(&own);
    check_ports(&own);
    check_tls(&own);
  }
  SK_ASSIGN_OR_RETURN(const std::vector<Json> facts, meeting.gather(own_facts(library, own)));
  compare_facts(facts, &job->findings);
  std::vector<std::string> hosts;
  for (const Json& each : facts) hosts.push_back(host_of(each));
  job->more["ranks"] = facts;
  SK_RETURN_IF_ERROR(compare_clocks(meeting, job));
  return exchange_among_all(meeting, hosts, job);
}

}  // namespace

int be_rank(const Options& options, const Identity& identity) {
  Job job;
  const std::string who =
      fmt::format("rank {} of {} ({})", identity.rank, identity.world_size, identity.launcher);
  auto meeting = Meeting::join(options.timeout_s, identity.can_meet_here());
  Status status = meeting.ok() ? Status() : std::move(meeting.status());
  if (status.ok()) {
    job.findings.ok("meeting",
                    fmt::format("all {} ranks of {} came", identity.world_size, identity.launcher));
    status = examine(meeting.value(), &job);
  }
  if (!status.ok()) {
    job.findings.fault(
        "meeting", fmt::format("{}: {}", who, status.message()),
        "look at the output and host of the rank that is named; where all have come, at the "
        "MTUs between it and rank 0; "
        "docs/troubleshooting.md has the sentence");
  }
  int result = job.findings.faulty() ? 1 : 0;
  if (identity.rank == 0) {
    job.more["world_size"] = identity.world_size;
    result = report(options, job.findings, job.more, job.table);
  } else if (!status.ok()) {
    std::fprintf(stderr, "sk doctor: %s: %s\n", who.c_str(), status.message().c_str());
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
