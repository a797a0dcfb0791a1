#include "tools/sk_kernel/magic_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "tools/sk_kernel/content.h"

namespace sk::kernel {
namespace {

int64_t integer_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

std::string megabytes(int64_t bytes) { return fmt::format("{} MiB", bytes >> 20); }

struct Row {
  std::vector<int64_t> ranks;
  std::string state;
  std::string host;
  std::string cause;
  int64_t bytes = 0;
  int64_t revived = 0;
};

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

}  // namespace

Table status_table(std::string_view json) {
  const Json status = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  std::vector<Row> rows;
  const auto ranks = status.is_object() ? status.find("ranks") : status.end();
  for (const Json& rank : ranks != status.end() ? *ranks : Json::array()) {
    if (!rank.is_object()) continue;
    Row row{{integer_of(rank, "rank")},    text_of(rank, "state"),
            text_of(rank, "host"),         first_line(text_of(rank, "cause")),
            integer_of(rank, "rss_bytes"), integer_of(rank, "incarnation")};
    const auto same = std::find_if(rows.begin(), rows.end(), [&](const Row& other) {
      return other.state == row.state && other.host == row.host && other.cause == row.cause &&
             other.revived == row.revived;
    });
    if (same == rows.end()) {
      rows.push_back(std::move(row));
      continue;
    }
    same->ranks.push_back(row.ranks[0]);
    same->bytes += row.bytes;
  }
  Table table;
  table.head = {"ranks", "state", "host", "memory", "revived", "why"};
  for (const Row& row : rows)
    table.rows.push_back({set_of(row.ranks), row.state, row.host, megabytes(row.bytes),
                          times(row.revived), row.cause});
  return table;
}

}  // namespace sk::kernel
