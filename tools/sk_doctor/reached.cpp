#include "tools/sk_doctor/reached.h"

#include <fmt/format.h>

#include <algorithm>

namespace sk::doctor {

Json to_json(const Meeting::Row& row) {
  Json with = Json::array();
  for (const Exchanged& each : row.with) with.push_back(to_json(each));
  return {{"with", with},
          {"broken", printable(row.broken)},
          {"code", row.code},
          {"descriptors", row.descriptors},
          {"connections", row.connections}};
}

Meeting::Row row_from(const Json& json) {
  Meeting::Row row;
  if (!json.is_object()) return row;
  for (const Json& each : json.value("with", Json::array()))
    row.with.push_back(exchanged_from(each));
  row.broken = json.value("broken", "");
  row.code = json.value("code", 0);
  row.descriptors = json.value("descriptors", 0);
  row.connections = json.value("connections", Connections());
  return row;
}

std::vector<PairSeen> pairs_of(const std::vector<Meeting::Row>& rows) {
  std::vector<PairSeen> pairs;
  const auto seen = [&](size_t by, size_t whom) {
    return whom < rows[by].with.size() ? rows[by].with[whom] : Exchanged();
  };
  for (size_t a = 0; a < rows.size(); ++a) {
    for (size_t b = a + 1; b < rows.size(); ++b) {
      const Exchanged one = seen(a, b), other = seen(b, a);
      PairSeen pair;
      pair.a = int(a);
      pair.b = int(b);
      pair.tried = one.tried || other.tried;
      const bool others =
          one.failure.empty() || (one.code == SK_ERR_PEER_LOST && !other.failure.empty());
      pair.failure = others ? other.failure : one.failure;
      pair.code = others ? other.code : one.code;
      pair.small_came = one.small_came || other.small_came;  // The other may not have told.
      pair.round_trip_us = one.round_trip_us;
      pair.bytes_per_s = one.bytes_per_s;
      const bool alone = !one.connections.empty() && !other.connections.empty();
      pair.addresses = alone ? common(one.connections, other.connections)
                             : common(rows[a].connections, rows[b].connections);
      pairs.push_back(std::move(pair));
    }
  }
  return pairs;
}

const PairSeen* slowest(const std::vector<PairSeen>& pairs) {
  const PairSeen* found = nullptr;
  for (const PairSeen& pair : pairs) {
    if (!pair.tried || !pair.failure.empty()) continue;
    if (found == nullptr || pair.bytes_per_s < found->bytes_per_s) found = &pair;
  }
  return found;
}

std::string matrix_text(const std::vector<PairSeen>& pairs, int world_size) {
  std::string out = fmt::format("{:>6}", "rank");
  for (int b = 0; b < world_size; ++b) out += fmt::format("{:>5}", b);
  for (int a = 0; a < world_size; ++a) {
    out += fmt::format("\n{:>6}", a);
    for (int b = 0; b < world_size; ++b) {
      const auto pair = std::find_if(pairs.begin(), pairs.end(), [&](const PairSeen& each) {
        return each.a == std::min(a, b) && each.b == std::max(a, b);
      });
      const char* word = pair == pairs.end()     ? "."
                         : !pair->tried          ? "?"
                         : pair->failure.empty() ? "ok"
                                                 : "FAIL";
      out += fmt::format("{:>5}", word);
    }
  }
  return out + "\n";
}

std::string speeds_text(const std::vector<PairSeen>& pairs) {
  std::vector<double> trips, speeds;
  for (const PairSeen& pair : pairs) {
    if (!pair.tried || !pair.failure.empty()) continue;
    trips.push_back(pair.round_trip_us);
    speeds.push_back(pair.bytes_per_s / 1e9);
  }
  if (trips.empty()) return "nothing to measure";
  std::sort(trips.begin(), trips.end());
  std::sort(speeds.begin(), speeds.end());
  const auto range = [](const std::vector<double>& of) {
    const double least = of.front(), most = of.back();
    return of.size() == 1 ? fmt::format("{:.3g}", least)
                          : fmt::format("{:.3g} to {:.3g}", least, most);
  };
  return fmt::format("8 bytes there and back in {} us, 1 MiB at {} GB/s", range(trips),
                     range(speeds));
}

Json to_json(const PairSeen& pair, const std::vector<std::string>& hosts) {
  return {{"ranks", {pair.a, pair.b}},
          {"hosts", {hosts[size_t(pair.a)], hosts[size_t(pair.b)]}},
          {"tried", pair.tried},
          {"reached", pair.tried && pair.failure.empty()},
          {"failure", printable(pair.failure)},
          {"small_came", pair.small_came},
          {"round_trip_us", pair.round_trip_us},
          {"bytes_per_s", pair.bytes_per_s},
          {"addresses", {pair.addresses.first, pair.addresses.second}}};
}

}  // namespace sk::doctor
