// Ranks that the doctor starts on this host, and what goes between them.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "tools/sk_doctor/checks.h"
#include "tools/sk_doctor/child.h"
#include "tools/sk_doctor/meeting.h"
#include "tools/sk_doctor/modes.h"
#include "tools/sk_doctor/reached.h"
#include "tools/sk_kernel/spec_places.h"

namespace sk::doctor {
namespace {

constexpr int kRanksMax = 4;

struct Way {
  const char* id;
  const char* what;
  bool apart;
  const char* tls;  // SK_NET_TLS.
};
constexpr std::array<Way, 3> kWays = {
    {{"live.shm", "shared memory", false, "1"},
     {"live.tcp", "TCP on the loopback, not encrypted", true, "0"},
     {"live.tls", "TCP on the loopback within TLS", true, "1"}}};

constexpr const char* kNoLoopback = "the loopback is down";

std::string last_lines(const std::string& text) {
  constexpr size_t kBytesMax = 400;
  const size_t end = text.find_last_not_of('\n');
  if (end == std::string::npos) return "";
  const size_t begin = end > kBytesMax ? end - kBytesMax : 0;
  return text.substr(begin, end - begin + 1);
}

void judge(const Way& way, const Json& said, Findings* findings) {
  std::vector<Meeting::Row> rows;
  for (const Json& row : said.value("rows", Json::array())) rows.push_back(row_from(row));
  const std::vector<PairSeen> pairs = pairs_of(rows);
  std::string broken;
  for (const Meeting::Row& row : rows)
    if (broken.empty()) broken = row.broken;
  const auto failed = std::find_if(pairs.begin(), pairs.end(),
                                   [](const PairSeen& pair) { return !pair.failure.empty(); });
  const std::string who = fmt::format("{} ranks over {}", rows.size(), way.what);
  if (broken == kNoLoopback) {
    findings->info(way.id, fmt::format("{}: not tried, for {}", who, broken));
  } else if (failed != pairs.end()) {
    findings->fault(
        way.id,
        fmt::format("{}: rank {} and rank {}: {}", who, failed->a, failed->b, failed->failure),
        "docs/troubleshooting.md has the sentence; SK_LOG=info tells what led to it");
  } else if (!broken.empty()) {
    findings->fault(way.id, fmt::format("{}: {}", who, broken),
                    "docs/troubleshooting.md has the sentence; SK_LOG=info tells what led to it");
  } else {
    findings->ok(way.id, fmt::format("{}: 1 MiB between all pairs came as it was sent; {}", who,
                                     speeds_text(pairs)));
  }
}

// One way after the other, as all ranks do.
Result<Json> take_all_ways(const Options& options, int* rank) {
  SK_ASSIGN_OR_RETURN(Meeting meeting, Meeting::join(options.timeout_s, /*here*/ false));
  *rank = meeting.rank();
  const auto library = Library::load(chosen_library());
  Json ways = Json::array();
  for (const Way& way : kWays) {
    Meeting::Row row;
    setenv("SK_NET_TLS", way.tls, 1);
    if (way.apart) setenv("SK_NET", "lo", 1);
    if (way.apart && !loopback_is_up()) {
      row.broken = kNoLoopback;
    } else if (library.ok()) {
      row = meeting.exchange_all(library.value(), way.apart);
    } else {
      row.broken = library.status().message();
    }
    SK_ASSIGN_OR_RETURN(const std::vector<Json> rows, meeting.gather(to_json(row)));
    ways.push_back({{"id", way.id}, {"rows", rows}});
  }
  return ways;
}

}  // namespace

int be_started_rank(const Options& options) {
  int rank = 0;
  const auto ways = take_all_ways(options, &rank);
  if (!ways.ok()) {
    std::fprintf(stderr, "%s\n", ways.status().message().c_str());
    return 1;
  }
  if (rank == 0) std::printf("%s\n", ways.value().dump().c_str());
  return 0;
}

void check_live(const Options& options, Findings* findings) {
  const int ranks = std::clamp(usable_cpus(), 2, kRanksMax);
  const std::string sk = kernel::this_program(), timeout = fmt::format("{}", options.timeout_s);
  const double all_s = options.timeout_s * double(kWays.size()) + 15;
  const Outcome outcome =
      run_program({sk, "run", "-n", std::to_string(ranks), "--timeout", fmt::format("{}", all_s),
                   "--", sk, "doctor", "--started-rank", "--timeout", timeout},
                  int64_t((all_s + 5) * 1e9));
  const Json ways = Json::parse(outcome.out, nullptr, false);
  if (!ways.is_array() || ways.size() != kWays.size()) {
    findings->fault(
        "live.start",
        fmt::format("{} ranks that sk run started here did not end well: {} {}", ranks,
                    outcome.failure, last_lines(outcome.err)),
        "docs/troubleshooting.md has the sentence; the lines above may have the reason");
    return;
  }
  int descriptors = 0;
  for (size_t i = 0; i < kWays.size(); ++i) {
    judge(kWays[i], ways[i], findings);
    for (const Json& row : ways[i].value("rows", Json::array()))
      descriptors = std::max(descriptors, row.value("descriptors", 0));
  }
  findings->info("live.start",
                 fmt::format("sk run started {} ranks; each had {} descriptors open at "
                             "most when all were connected",
                             ranks, descriptors));
}

}  // namespace sk::doctor
