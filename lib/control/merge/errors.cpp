#include "lib/control/merge/errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "lib/control/merge/render.h"
#include "lib/control/message.h"
#include "lib/control/text.h"

namespace sk::control {
namespace {

constexpr uint64_t kErrorsBytesMax = 16ull << 20;  // Of errors_by_rank().
constexpr size_t kBeginningBytes = 1024;           // Of a name or value beyond that.
constexpr size_t kGroupsMax = 8;  // Shown with their tracebacks; the others are counted.

// Ranks of a host read one clock, but whoever waits for a core reads it late. What lies closer
// together has no order.
constexpr int64_t kClockErrorNs = 1'000'000;

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// A frame without what differs between processes that fail alike: colours and addresses.
std::string normalised(const std::string& line) {
  const std::string plain = strip_ansi(line);
  std::string out;
  for (size_t i = 0; i < plain.size();) {
    if (plain.compare(i, 2, "0x") != 0) {
      out += plain[i++];
      continue;
    }
    out += "0x";
    for (i += 2; i < plain.size() && is_hex(plain[i]);) ++i;
  }
  return out;
}

// Of ranks that run nothing of their language: not yet, or not what could be ended.
constexpr std::string_view kOurInterrupt = "KeyboardInterrupt";

constexpr uint32_t kFollowed = SK_ERROR_CONSEQUENCE | SK_ERROR_INTERRUPT;

bool follows(const ErrorRecord& error) { return (error.flags & SK_ERROR_CONSEQUENCE) != 0; }

// Interrupts that only followed from a peer's death are one thing, wherever each rank stood.
bool is_mere_interrupt(const ErrorRecord& error) { return (error.flags & kFollowed) == kFollowed; }

bool is_interrupt(const ErrorRecord& error) { return (error.flags & SK_ERROR_INTERRUPT) != 0; }

// Failures with the same name, value and frames.
struct FailureGroup {
  const ErrorRecord* error;
  int64_t time_ns;
  RankSet ranks;
};

// What only followed comes last: a death is noticed after what it led to. Among equals by time, and
// by rank where the clock does not tell.
void sort_groups(std::vector<FailureGroup>& groups) {
  const auto late = [](const FailureGroup& group) { return follows(*group.error); };
  std::sort(groups.begin(), groups.end(), [&](const FailureGroup& a, const FailureGroup& b) {
    return std::tuple(late(a), a.time_ns, a.ranks) < std::tuple(late(b), b.time_ns, b.ranks);
  });
  for (auto first = groups.begin(); first != groups.end();) {
    const auto end = std::find_if(first, groups.end(), [&](const FailureGroup& group) {
      return late(group) != late(*first) || group.time_ns - first->time_ns > kClockErrorNs;
    });
    std::sort(first, end,
              [](const FailureGroup& a, const FailureGroup& b) { return a.ranks < b.ranks; });
    first = end;
  }
}

// Whether others failed only because of the first, as far as the clock tells: not whom they name,
// for that is who had ended the cell when they were told, and the first may be slow to.
bool first_is_root(const std::vector<FailureGroup>& groups) {
  if (follows(*groups[0].error) || is_interrupt(*groups[0].error)) return false;
  if (groups.size() < 2 || !follows(*groups.back().error)) return false;
  return follows(*groups[1].error) || groups[1].time_ns - groups[0].time_ns > kClockErrorNs;
}

std::vector<FailureGroup> group_failures(const std::vector<RankFailure>& failures) {
  using Key = std::tuple<uint32_t, std::string, std::string, std::vector<std::string>>;
  std::map<Key, FailureGroup> by_key;
  for (const RankFailure& failure : failures) {
    const ErrorRecord& error = failure.error.error;
    Key key{error.flags, error.ename, "", {}};
    if (!is_mere_interrupt(error)) {
      std::get<2>(key) = error.evalue;
      for (const std::string& line : error.traceback) std::get<3>(key).push_back(normalised(line));
    }
    const auto [it, is_new] = by_key.try_emplace(
        std::move(key), FailureGroup{&error, failure.error.time_ns, {failure.rank}});
    if (is_new) continue;
    FailureGroup& group = it->second;
    // The words are those of the lowest rank, whoever's came first.
    if (failure.rank < group.ranks.front()) group.error = &error;
    group.time_ns = std::min(group.time_ns, failure.error.time_ns);
    group.ranks.insert(std::upper_bound(group.ranks.begin(), group.ranks.end(), failure.rank),
                       failure.rank);
  }
  std::vector<FailureGroup> groups;
  for (auto& [key, group] : by_key) groups.push_back(std::move(group));
  sort_groups(groups);
  return groups;
}

std::string value_of(const ErrorRecord& error) {
  return error.evalue.empty() ? error.ename : error.ename + ": " + error.evalue;
}

// The one name of all that did not only follow. An interrupt is one thing, which a language names.
std::string name_of(const std::vector<FailureGroup>& groups) {
  const ErrorRecord* named = groups[0].error;
  for (const FailureGroup& group : groups) {
    const ErrorRecord& error = *group.error;
    if (follows(error)) continue;
    if (is_interrupt(*named) && is_interrupt(error)) {
      if (named->ename == kOurInterrupt) named = &error;
    } else if (error.ename != named->ename) {
      return "MultiRankError";
    }
  }
  return named->ename;
}

void add_group(const FailureGroup& group, bool is_root, int64_t start_ns, Event& event) {
  event.evalue += fmt::format("{}{} [{}]", event.evalue.empty() ? "" : "; ", value_of(*group.error),
                              name_ranks(group.ranks));
  const char* role = is_root ? "root cause, " : follows(*group.error) ? "as a consequence, " : "";
  event.traceback.push_back(fmt::format("──── {} ({}t+{:.3f} s) ────", name_ranks(group.ranks),
                                        role, static_cast<double>(group.time_ns - start_ns) / 1e9));
  const auto& lines = group.error->traceback;
  if (is_mere_interrupt(*group.error))
    event.traceback.push_back("interrupted");
  else
    event.traceback.insert(event.traceback.end(), lines.begin(), lines.end());
}

uint64_t size_of(const ErrorRecord& error) {
  uint64_t bytes = error.ename.size() + error.evalue.size();
  for (const std::string& line : error.traceback) bytes += line.size();
  return bytes;
}

std::string beginning(const std::string& text) {
  if (text.size() <= kBeginningBytes) return text;
  const std::string cut = text.substr(0, kBeginningBytes);
  return cut.substr(0, cut.size() - utf8_open_tail(cut)) + "…";
}

}  // namespace

std::vector<RankErrors> errors_by_rank(std::vector<RankFailure> failures) {
  std::stable_sort(
      failures.begin(), failures.end(), [](const RankFailure& a, const RankFailure& b) {
        return std::tuple(a.rank, a.error.time_ns) < std::tuple(b.rank, b.error.time_ns);
      });
  using Key = std::tuple<uint32_t, std::string, std::string, std::vector<std::string>>;
  std::map<Key, size_t> places;
  std::vector<RankErrors> out;
  uint64_t bytes = 0;
  for (RankFailure& failure : failures) {
    ErrorRecord& error = failure.error.error;
    const auto [place, is_new] = places.try_emplace(
        Key{error.flags, error.ename, error.evalue, error.traceback}, out.size());
    if (!is_new) {
      RankSet& ranks = out[place->second].ranks;
      if (ranks.back() != failure.rank) ranks.push_back(failure.rank);
      continue;
    }
    if (bytes + size_of(error) > kErrorsBytesMax)
      error = {beginning(error.ename),
               beginning(error.evalue),
               {"(a traceback of too many bytes)"},
               error.flags};
    else
      bytes += size_of(error);
    out.push_back({{failure.rank}, std::move(error)});
  }
  return out;
}

Event render_errors(const std::vector<RankFailure>& failures, const RankSet& target) {
  std::vector<FailureGroup> groups = group_failures(failures);
  const bool has_root = first_is_root(groups);
  Event event;
  event.kind = SK_EVENT_ERROR;
  event.errors = errors_by_rank(failures);
  RankSet everyone;
  for (const FailureGroup& group : groups) everyone = merge_sets(everyone, group.ranks);
  event.ranks = format_ranks(everyone);
  event.all_ranks = groups.size() == 1 && groups[0].ranks == target;
  event.ename = name_of(groups);
  if (groups.size() == 1) {
    event.evalue = groups[0].error->evalue;
    event.traceback = groups[0].error->traceback;
    if (target.size() == 1) return event;
    const std::string where = "[" + name_ranks(groups[0].ranks) + "]";
    event.evalue += event.evalue.empty() ? where : " " + where;
    event.traceback.push_back(where);
    return event;
  }
  int64_t start_ns = INT64_MAX;
  for (const FailureGroup& group : groups) start_ns = std::min(start_ns, group.time_ns);
  if (has_root) groups[0].time_ns = start_ns;  // It was no later than what came of it.
  for (size_t i = 0; i < std::min(groups.size(), kGroupsMax); ++i)
    add_group(groups[i], i == 0 && has_root, start_ns, event);
  if (groups.size() <= kGroupsMax) return event;
  RankSet others;
  for (size_t j = kGroupsMax; j < groups.size(); ++j) others = merge_sets(others, groups[j].ranks);
  const std::string more =
      fmt::format("{} more errors, on {}", groups.size() - kGroupsMax, name_ranks(others));
  event.evalue += "; " + more;
  event.traceback.push_back("… " + more);
  return event;
}

}  // namespace sk::control
