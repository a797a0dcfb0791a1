#include "tools/sk_kernel/magic_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "tools/sk_kernel/table.h"

namespace sk::kernel {
namespace {

constexpr size_t kRowsMax = 32;

double seconds(int64_t ns) { return static_cast<double>(ns) / 1e9; }

std::string in_words(int64_t ns) {
  if (ns < 1'000'000) return fmt::format("{:.0f} µs", static_cast<double>(ns) / 1e3);
  if (ns < 1'000'000'000) return fmt::format("{:.1f} ms", static_cast<double>(ns) / 1e6);
  return fmt::format("{:.2f} s", seconds(ns));
}

bool quicker(const sk_rank_time& a, const sk_rank_time& b) { return a.wall_ns < b.wall_ns; }

}  // namespace

// The lowest of those that took longest.
size_t CellTimes::slowest() const {
  return std::max_element(times_.begin(), times_.end(), quicker) - times_.begin();
}

int64_t CellTimes::skew_ns() const {
  const auto [first, last] = std::minmax_element(times_.begin(), times_.end(), quicker);
  return last->wall_ns - first->wall_ns;
}

Json CellTimes::as_json() const {
  if (times_.empty()) return Json::object();
  Json json = {{"ranks", Json::array()}, {"wall_s", Json::array()}, {"cpu_s", Json::array()}};
  for (const sk_rank_time& time : times_) {
    json["ranks"].push_back(time.rank);
    json["wall_s"].push_back(seconds(time.wall_ns));
    json["cpu_s"].push_back(seconds(time.cpu_ns));
  }
  json["skew_s"] = seconds(skew_ns());
  json["slowest"] = times_[slowest()].rank;
  return json;
}

Json CellTimes::as_display() const {
  if (times_.empty()) {
    const char* why = cell_ == 0 ? "No cell has run yet." : "No rank told what the last cell took.";
    return {{"text/plain", why}};
  }
  std::vector<sk_rank_time> shown = times_;
  Table table;
  table.head = {"rank", "wall", "cpu"};
  table.numbers_to_right = true;
  table.foot = fmt::format("cell {}: slowest rank {}, skew {}", cell_, times_[slowest()].rank,
                           in_words(skew_ns()));
  if (shown.size() > kRowsMax) {  // The slowest are what one looks for.
    std::stable_sort(shown.begin(), shown.end(),
                     [](const auto& a, const auto& b) { return quicker(b, a); });
    shown.resize(kRowsMax);
    table.foot += fmt::format("; the {} slowest of {} ranks are shown", kRowsMax, times_.size());
  }
  for (const sk_rank_time& time : shown)
    table.rows.push_back(
        {std::to_string(time.rank), in_words(time.wall_ns), in_words(time.cpu_ns)});
  return {{"text/plain", table.plain()}, {"text/html", table.html()}};
}

}  // namespace sk::kernel
