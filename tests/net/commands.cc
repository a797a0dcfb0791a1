#include "tests/net/commands.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "lib/base/status.h"

namespace sk::net {
namespace {

using Words = std::span<const std::string>;

// Rates are shares; everything else is a whole number.
struct Share {
  const char* name;
  double Settings::*member;
};
constexpr Share kShares[] = {{"loss", &Settings::loss},
                             {"duplicate", &Settings::duplicate},
                             {"reorder", &Settings::reorder},
                             {"corrupt", &Settings::corrupt},
                             {"corrupt_unseen", &Settings::corrupt_unseen}};

struct Amount {
  const char* name;
  int64_t Settings::*member;
  int64_t least;
  int64_t most;
};
constexpr int64_t kMinuteUs = 60'000'000;
constexpr Amount kAmounts[] = {{"delay_us", &Settings::delay_us, 0, kMinuteUs},
                               {"jitter_us", &Settings::jitter_us, 0, kMinuteUs},
                               {"reorder_us", &Settings::reorder_us, 0, kMinuteUs},
                               {"rate_kbit", &Settings::rate_kbit, 0, 100'000'000},
                               {"queue_packets", &Settings::queue_packets, 1, 1'000'000},
                               {"packet_bytes", &Settings::packet_bytes, 0, 65'535}};

struct Count {
  const char* name;
  uint64_t Counts::*member;
};
constexpr Count kCounts[] = {{"sent", &Counts::sent},
                             {"delivered", &Counts::delivered},
                             {"lost", &Counts::lost},
                             {"duplicated", &Counts::duplicated},
                             {"late", &Counts::late},
                             {"corrupted", &Counts::corrupted},
                             {"corrupted_unseen", &Counts::corrupted_unseen},
                             {"cut", &Counts::cut},
                             {"overflowed", &Counts::overflowed},
                             {"refused", &Counts::refused}};

std::vector<std::string> split(std::string_view line) {
  std::vector<std::string> words(1);
  for (const char c : line) {
    if (c != ' ') {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

// The whole word as a number; false when it is none.
template <class Number>
bool parse(const std::string& word, Number& out) {
  const char* const end = word.data() + word.size();
  const auto [stop, failure] = std::from_chars(word.data(), end, out);
  return failure == std::errc() && stop == end;
}

// Ordered pairs of different hosts.
using Directions = std::vector<std::pair<int, int>>;

Result<std::vector<int>> hosts_of(Words names, const std::string& word) {
  std::vector<int> found;
  for (size_t i = 0; i < names.size(); ++i) {
    if (word == "*" || word == names[i]) found.push_back(int(i));
  }
  if (found.empty()) {
    return error(SK_ERR_INVALID_ARGUMENT, "\"{}\" is no host; there are {}", word,
                 fmt::join(names, ", "));
  }
  return found;
}

// What FROM TO [both] name, and takes those words off.
Result<Directions> take_directions(Words names, Words& words) {
  if (words.size() < 2) {
    return error(SK_ERR_INVALID_ARGUMENT, "two hosts were expected, FROM and TO");
  }
  SK_ASSIGN_OR_RETURN(const std::vector<int> from, hosts_of(names, words[0]));
  SK_ASSIGN_OR_RETURN(const std::vector<int> to, hosts_of(names, words[1]));
  const bool both = words.size() > 2 && words[2] == "both";
  words = words.subspan(both ? 3 : 2);
  Directions out;
  for (const int a : from) {
    for (const int b : to) {
      if (a != b) out.emplace_back(a, b);
      if (a != b && both) out.emplace_back(b, a);
    }
  }
  if (out.empty()) {
    return error(SK_ERR_INVALID_ARGUMENT, "a host has no link to itself");
  }
  return out;
}

// Writes one setting; the sentence says what is allowed.
Status apply(Settings& settings, const std::string& name, const std::string& value) {
  for (const Share& share : kShares) {
    if (name != share.name) continue;
    double number = 0;
    if (parse(value, number) && number >= 0 && number <= 1) {
      settings.*share.member = number;
      return {};
    }
    return error(SK_ERR_INVALID_ARGUMENT, "{} is \"{}\"; it is a share of packets, 0 to 1", name,
                 value);
  }
  for (const Amount& amount : kAmounts) {
    if (name != amount.name) continue;
    int64_t number = 0;
    if (parse(value, number) && number >= amount.least && number <= amount.most) {
      settings.*amount.member = number;
      return {};
    }
    return error(SK_ERR_INVALID_ARGUMENT, "{} is \"{}\"; it is a whole number, {} to {}", name,
                 value, amount.least, amount.most);
  }
  return error(SK_ERR_INVALID_ARGUMENT, "there is no setting \"{}\"", name);
}

Status set(Hub& hub, const Directions& directions, Words words) {
  if (words.empty() || words.size() % 2 != 0) {
    return error(SK_ERR_INVALID_ARGUMENT, "names of settings were expected, each with a value");
  }
  // All or none: on the side first, where only the values matter.
  const auto apply_all = [words](Settings& settings) -> Status {
    for (size_t i = 0; i < words.size(); i += 2) {
      SK_RETURN_IF_ERROR(apply(settings, words[i], words[i + 1]));
    }
    return {};
  };
  Settings tried;
  SK_RETURN_IF_ERROR(apply_all(tried));
  for (const auto& [from, to] : directions) {
    SK_RETURN_IF_ERROR(apply_all(hub.settings(from, to)));
  }
  return {};
}

std::string stats(const Hub& hub, Words names) {
  std::string out;
  for (int from = 0; from < hub.hosts(); ++from) {
    for (int to = 0; to < hub.hosts(); ++to) {
      if (from == to) continue;
      out += names[size_t(from)] + " " + names[size_t(to)];
      for (const Count& count : kCounts) {
        out += fmt::format(" {} {}", count.name, hub.counts(from, to).*count.member);
      }
      out += '\n';
    }
  }
  return out;
}

Result<std::string> answer(Hub& hub, Words names, Words words) {
  const std::string verb = words.empty() ? "" : words[0];
  if (verb == "stats" && words.size() == 1) return stats(hub, names);
  if (verb != "cut" && verb != "restore" && verb != "set") {
    return error(SK_ERR_INVALID_ARGUMENT, "\"{}\" is none of cut, restore, set and stats",
                 fmt::join(words, " "));
  }
  words = words.subspan(1);
  SK_ASSIGN_OR_RETURN(const Directions directions, take_directions(names, words));
  if (verb == "set") {
    SK_RETURN_IF_ERROR(set(hub, directions, words));
    return std::string();
  }
  if (!words.empty()) {
    return error(SK_ERR_INVALID_ARGUMENT, "behind {} FROM TO stands \"{}\"; only \"both\" may",
                 verb, words[0]);
  }
  for (const auto& [from, to] : directions) {
    verb == "cut" ? hub.cut(from, to) : hub.restore(from, to);
  }
  return std::string();
}

}  // namespace

std::string obey(Hub& hub, std::span<const std::string> names, std::string_view line) {
  const std::vector<std::string> words = split(line);
  Result<std::string> out = answer(hub, names, words);
  return out.ok() ? *out + "ok\n" : "error: " + out.status().message() + "\n";
}

}  // namespace sk::net
