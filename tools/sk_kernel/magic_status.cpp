#include "tools/sk_kernel/magic_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "tools/sk_kernel/content.h"

namespace sk::kernel {
namespace {

constexpr size_t kRowsMax = 16;  // Of more ranks those that are alike share a row.

int64_t integer_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

double number_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

struct Row {
  std::vector<int64_t> ranks;
  std::string state;
  std::string cell;
  std::string waits;
  std::string host;
  std::string cause;
  int64_t revived = 0;
  // From and to, of its ranks.
  std::pair<int64_t, int64_t> mebibytes{};
  std::pair<double, double> seconds{};
  std::pair<double, double> asked_seconds{};  // Since when its user is asked.
  bool same_kind(const Row& other) const {
    return other.state == state && other.cell == cell && other.waits == waits &&
           other.host == host && other.cause == cause && other.revived == revived;
  }
};

std::string memory_of(const Row& row) {
  const auto [least, most] = row.mebibytes;
  return least == most ? fmt::format("{} MiB", most) : fmt::format("{}…{} MiB", least, most);
}

std::string duration(double seconds) {
  const auto whole = static_cast<int64_t>(seconds);
  if (whole < 60) return fmt::format("{:.1f} s", seconds);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

std::string range_of(const std::pair<double, double>& seconds) {
  const std::string least = duration(seconds.first), most = duration(seconds.second);
  return least == most ? most : least + " … " + most;
}

std::string elapsed_of(const Row& row) { return row.cell.empty() ? "" : range_of(row.seconds); }

std::string wait_of(const Row& row) {
  if (row.asked_seconds.second == 0) return row.waits;
  return fmt::format("{}, {}", row.waits, range_of(row.asked_seconds));
}

std::string cell_of(const Json& rank) {
  const std::string doing = text_of(rank, "doing");
  if (doing == "comm") return "widget";
  if (doing != "cell") return "";
  const int64_t number = integer_of(rank, "execution_count");
  return number > 0 ? fmt::format("[{}]", number) : "hidden";
}

std::string waits_of(const Json& rank) {
  if (rank.contains("asks")) {
    const std::string prompt = text_of(rank, "asks");
    return prompt.empty() ? "for your answer" : fmt::format("for your answer to \"{}\"", prompt);
  }
  const std::string awaited = text_of(rank, "waits_for");
  if (awaited.empty()) return "";
  const bool one = awaited.find_first_not_of("0123456789") == std::string::npos;
  return fmt::format("for {} {} in {}", one ? "rank" : "ranks", awaited, text_of(rank, "waits_in"));
}

// {0,1,2,5} -> "0-2,5".
std::string set_of(const std::vector<int64_t>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", ranks[i]);
    if (last > i) text += fmt::format("{}{}", last == i + 1 ? "," : "-", ranks[last]);
    i = last + 1;
  }
  return text;
}

// A cause of death may go on with last words; a table has room for the cause.
std::string first_line(const std::string& cause) {
  return cause.substr(0, cause.find("; its last words:\n"));
}

std::string times(int64_t count) {
  return count == 0 ? "" : count == 1 ? "once" : fmt::format("{} times", count);
}

template <typename Value>
void widen(std::pair<Value, Value>* range, const std::pair<Value, Value>& other) {
  range->first = std::min(range->first, other.first);
  range->second = std::max(range->second, other.second);
}

// Those in which no rank has anything.
void drop_empty_columns(Table* table) {
  for (size_t column = table->head.size(); column-- > 0;) {
    const bool empty = std::all_of(table->rows.begin(), table->rows.end(),
                                   [&](const auto& row) { return row[column].empty(); });
    if (!empty) continue;
    const auto at = static_cast<std::ptrdiff_t>(column);
    table->head.erase(table->head.begin() + at);
    for (auto& row : table->rows) row.erase(row.begin() + at);
  }
}

}  // namespace

Table status_table(std::string_view json) {
  const Json status = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  std::vector<Row> rows;
  const auto ranks = status.is_object() ? status.find("ranks") : status.end();
  for (const Json& rank : ranks != status.end() ? *ranks : Json::array()) {
    if (!rank.is_object()) continue;
    Row row{{integer_of(rank, "rank")},
            text_of(rank, "state"),
            cell_of(rank),
            waits_of(rank),
            text_of(rank, "host"),
            first_line(text_of(rank, "cause")),
            integer_of(rank, "incarnation")};
    row.mebibytes.first = row.mebibytes.second = integer_of(rank, "rss_bytes") >> 20;
    row.seconds.first = row.seconds.second = number_of(rank, "elapsed_seconds");
    row.asked_seconds.first = row.asked_seconds.second = number_of(rank, "asked_seconds");
    const auto same = ranks->size() <= kRowsMax
                          ? rows.end()
                          : std::find_if(rows.begin(), rows.end(),
                                         [&](const Row& other) { return row.same_kind(other); });
    if (same == rows.end()) {
      rows.push_back(std::move(row));
      continue;
    }
    same->ranks.push_back(row.ranks[0]);
    widen(&same->mebibytes, row.mebibytes);
    widen(&same->seconds, row.seconds);
    widen(&same->asked_seconds, row.asked_seconds);
  }
  Table table;
  table.head = {"ranks", "state", "cell", "for", "waits", "host", "memory", "revived", "why"};
  for (const Row& row : rows)
    table.rows.push_back({set_of(row.ranks), row.state, row.cell, elapsed_of(row), wait_of(row),
                          row.host, memory_of(row), times(row.revived), row.cause});
  drop_empty_columns(&table);
  return table;
}

}  // namespace sk::kernel
