// Every two ranks of a job, and what is to be done about those that do not reach each other.
#include <algorithm>

#include "tools/sk_doctor/job.h"
#include "tools/sk_doctor/reached.h"

namespace sk::doctor {
namespace {

constexpr size_t kFailuresTold = 20;
constexpr int kAloneRanksMax = 64;  // More pairs, one after the other, would take too long.

constexpr const char* kConnectionLost = " was lost: ";  // docs/troubleshooting.md has all of it.

using Rows = std::vector<Meeting::Row>;

// What a network does to a connection; all else is of a rank's own host.
bool is_of_a_network(int32_t code) {
  return code == SK_ERR_TRANSPORT || code == SK_ERR_TIMEOUT || code == SK_ERR_PEER_LOST;
}

std::string advice_for(const PairSeen& pair, bool one_host) {
  if (pair.code == SK_ERR_INTERNAL)
    return one_host ? "the memory of this host loses bits: look at its log (dmesg, edac-util)"
                    : "what is on the way changes data: look at the devices' checksums (ethtool "
                      "-K DEV rx off tx off), and keep SK_NET_TLS=1";
  if (one_host || !is_of_a_network(pair.code))
    return "no network is in the way: set right what the sentence names, a limit of that host "
           "(ulimit -a there) or a variable; docs/troubleshooting.md has the sentence";
  if (pair.small_came)
    return "small messages came and large ones did not: compare the MTUs on the way (ip link; ping "
           "-M do -s 1472 HOST), or set one that all of it can carry (ip link set DEV mtu 1400)";
  // That the two were connected is told by the library's sentence alone; their meeting goes on.
  if (pair.failure.find(kConnectionLost) != std::string::npos)
    return "they were connected, and then nothing came through while small packets to rank 0 did: "
           "compare the MTUs on the way (ip link; ping -M do -s 1472 HOST)";
  return "let TCP pass between the two (firewall, SK_PORT_RANGE), or name a network that both are "
         "in with SK_NET";
}

bool fails(const PairSeen& pair) { return !pair.failure.empty(); }

// Which of several addresses was taken, for where one of two networks is the slow one.
void tell_networks(const std::vector<PairSeen>& pairs, Findings* findings) {
  size_t v4 = 0, v6 = 0;
  for (const PairSeen& pair : pairs) {
    if (pair.addresses.first.empty()) continue;
    (pair.addresses.first.front() == '[' ? v6 : v4) += 1;
  }
  if (v4 + v6 == 0) return;
  findings->info("paths",
                 fmt::format("between hosts {} pairs are joined over IPv4 and {} over IPv6; "
                             "sk doctor --json has each one's addresses",
                             v4, v6));
}

void tell_pairs(const std::vector<PairSeen>& pairs, const Meeting& meeting,
                const std::vector<std::string>& hosts, Findings* findings) {
  const std::vector<int>& host_of = meeting.host_of();
  size_t failures = 0, untried = 0;
  for (const PairSeen& pair : pairs) {
    untried += pair.tried ? 0 : 1;
    if (!fails(pair) || ++failures > kFailuresTold) continue;
    const size_t a = size_t(pair.a), b = size_t(pair.b);
    findings->fault("pair",
                    fmt::format("rank {} ({}) and rank {} ({}): {}", pair.a, hosts[a], pair.b,
                                hosts[b], pair.failure),
                    advice_for(pair, host_of[a] == host_of[b]));
  }
  if (failures > kFailuresTold) {
    findings->fault("pair", fmt::format("{} more pairs failed", failures - kFailuresTold),
                    "sk doctor --json names them all");
  }
  if (untried > 0) {
    findings->limit("pairs", fmt::format("{} of {} pairs were not tried", untried, pairs.size()),
                    "set right what failed, and ask again");
  }
  if (const PairSeen* slow = slowest(pairs); slow != nullptr && pairs.size() > 1) {
    const auto& [here, there] = slow->addresses;
    findings->info(
        "slowest",
        fmt::format(
            "rank {} ({}) and rank {} ({}): 1 MiB at {:.3g} GB/s, {}", slow->a,
            hosts[size_t(slow->a)], slow->b, hosts[size_t(slow->b)], slow->bytes_per_s / 1e9,
            here.empty() ? "over shared memory" : fmt::format("from {} to {}", here, there)));
  }
  tell_networks(pairs, findings);
  if (failures + untried == 0) {
    findings->ok("pairs", fmt::format("1 MiB between all {} pairs came as it was sent; {}",
                                      pairs.size(), speeds_text(pairs)));
  }
}

// The rank that says why no communicator of all stands: before those that lost it, the one that had
// a reason of its own. -1: it stands.
int whose_reason(const Rows& rows) {
  int first = -1;
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    if (rows[rank].broken.empty()) continue;
    if (!is_of_a_network(rows[rank].code)) return int(rank);
    if (first < 0) first = int(rank);
  }
  return first;
}

// Other than that, what `rows` has stays.
Status rows_of_all(Meeting& meeting, Rows* rows) {
  SK_ASSIGN_OR_RETURN(const std::vector<Json> all,
                      meeting.gather(to_json((*rows)[size_t(meeting.rank())])));
  for (size_t rank = 0; rank < all.size(); ++rank) {
    (*rows)[rank] = row_from(all[rank]);
    (*rows)[rank].with.resize(rows->size());
  }
  return {};
}

std::string advice_for_all(const std::vector<PairSeen>& pairs, bool by_pairs, bool met) {
  if (!met) return "look at the rank that the last line names";
  if (!by_pairs) return "docs/troubleshooting.md has the sentence";
  const bool all_pass = std::all_of(
      pairs.begin(), pairs.end(), [](const PairSeen& pair) { return pair.tried && !fails(pair); });
  return all_pass ? "each pair alone can: it fails only with all ranks at once, so look at the "
                    "limits of that rank's host (ulimit -n and -u, ports of SK_PORT_RANGE)"
                  : "set right what fails below, where each pair had a communicator of its own";
}

void tell(const std::vector<PairSeen>& pairs, const Meeting& meeting,
          const std::vector<std::string>& hosts, Job* job) {
  tell_pairs(pairs, meeting, hosts, &job->findings);
  const bool few = meeting.world_size() <= kMatrixRanksMax;
  if (few) job->table = matrix_text(pairs, meeting.world_size());
  job->more["pairs"] = Json::array();
  bool all_reached = true;
  for (const PairSeen& pair : pairs) {
    const bool outlier = !pair.tried || fails(pair);
    all_reached = all_reached && !outlier;
    if (outlier || few) job->more["pairs"].push_back(to_json(pair, hosts));
  }
  job->more["all_reached"] = all_reached;
  const PairSeen* slow = slowest(pairs);
  job->more["slowest"] = slow != nullptr ? to_json(*slow, hosts) : Json();
}

}  // namespace

Status exchange_among_all(Meeting& meeting, const std::vector<std::string>& hosts, Job* job) {
  const auto library = Library::load(chosen_library());
  Rows rows(hosts.size());
  for (Meeting::Row& row : rows) row.with.resize(hosts.size());
  // Who cannot load it would keep all others waiting.
  SK_ASSIGN_OR_RETURN(const std::vector<Json> loaded, meeting.gather(Json(library.ok())));
  const bool all_loaded = std::all_of(loaded.begin(), loaded.end(),
                                      [](const Json& each) { return each == Json(true); });
  if (all_loaded) rows[size_t(meeting.rank())] = meeting.exchange_all(library.value(), false);
  // From here on the meeting may end: what was seen until then is told all the same.
  Status met = rows_of_all(meeting, &rows);
  const int by = whose_reason(rows);
  const std::string broken = by < 0 ? "" : rows[size_t(by)].broken;
  // Between hosts one pair that fails keeps all from a communicator, and hides the others.
  const bool by_pairs =
      met.ok() && by >= 0 && !meeting.one_host() && meeting.world_size() <= kAloneRanksMax;
  if (by_pairs) {
    for (Meeting::Row& row : rows)  // What failed there may have failed for another pair's sake.
      for (Exchanged& each : row.with)
        if (!each.failure.empty()) each = {};
    met = meeting.exchange_pairs(library.value(), &rows);
  }
  const std::vector<PairSeen> pairs = pairs_of(rows);
  if (by >= 0) {
    job->findings.fault("communicator",
                        fmt::format("of all ranks, as rank {} says: {}", by, broken),
                        advice_for_all(pairs, by_pairs, met.ok()));
  } else if (all_loaded && met.ok()) {
    job->findings.ok("communicator", fmt::format("of all {} ranks stands", hosts.size()));
  }
  tell(pairs, meeting, hosts, job);
  return met;
}

}  // namespace sk::doctor
