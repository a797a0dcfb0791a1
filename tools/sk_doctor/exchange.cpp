#include "tools/sk_doctor/exchange.h"

#include <algorithm>
#include <vector>

#include "tools/sk_doctor/child.h"

namespace sk::doctor {
namespace {

constexpr int64_t kWords = kExchangeBytes / int64_t(sizeof(int64_t));
// The fastest counts; the first makes plans and warms caches.
struct Times {
  int small, large;
};
constexpr Times kThorough = {20, 3}, kBrief = {2, 1};

using Words = std::vector<int64_t>;

class Pair {
 public:
  Pair(const Library& library, sk_comm* comm, int rank, int peer)
      : library_(library), comm_(comm), first_(rank < peer), peer_(peer) {}

  // The lower rank sends first: a send may wait until its receiver has come.
  Status both_ways(const Words& mine, Words& theirs) const {
    for (const bool sends : {first_, !first_}) {
      const auto count = int64_t(mine.size());
      const sk_status status =
          sends ? library_.send(comm_, mine.data(), count, SK_I64, peer_, nullptr)
                : library_.recv(comm_, theirs.data(), count, SK_I64, peer_, nullptr);
      if (status != SK_OK) return library_.failure(status);
    }
    return {};
  }

 private:
  const Library& library_;
  sk_comm* comm_;
  bool first_;
  int peer_;
};

Words random_words(uint64_t seed) {
  Words words(kWords);
  for (int64_t& word : words) {  // SplitMix64: many ranks of few cores make many of these.
    uint64_t z = seed += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    word = int64_t(z ^ z >> 31);
  }
  return words;
}

Status small_messages(const Pair& pair, int times, Exchanged* out) {
  Words mine = {1}, theirs = {0};
  SK_RETURN_IF_ERROR(pair.both_ways(mine, theirs));
  out->small_came = true;
  int64_t least_ns = INT64_MAX;
  for (int i = 0; i < times; ++i) {
    const int64_t begin_ns = clock_ns();
    SK_RETURN_IF_ERROR(pair.both_ways(mine, theirs));
    least_ns = std::min(least_ns, clock_ns() - begin_ns);
  }
  out->round_trip_us = double(least_ns) / 1e3;
  return {};
}

Status large_messages(const Pair& pair, int rank, int peer, uint64_t seed, int times,
                      Exchanged* out) {
  for (int i = 0; i < times; ++i) {
    const auto seed_of = [&](int whose) {
      return (seed << 4 | uint64_t(i)) << 13 ^ uint64_t(whose);
    };
    const Words mine = random_words(seed_of(rank)), due = random_words(seed_of(peer));
    Words theirs(kWords);
    const int64_t begin_ns = clock_ns();
    SK_RETURN_IF_ERROR(pair.both_ways(mine, theirs));
    const double seconds = double(clock_ns() - begin_ns) / 1e9;
    out->bytes_per_s = std::max(out->bytes_per_s, 2.0 * double(kExchangeBytes) / seconds);
    const auto [came, sent] = std::mismatch(theirs.begin(), theirs.end(), due.begin());
    if (came != theirs.end()) {
      return error(SK_ERR_INTERNAL, "of {} bytes other ones came than were sent, from byte {} on",
                   kExchangeBytes, (came - theirs.begin()) * int64_t(sizeof(int64_t)));
    }
  }
  return {};
}

}  // namespace

Json to_json(const Exchanged& exchanged) {
  return {{"tried", exchanged.tried},
          {"code", exchanged.code},
          {"failure", printable(exchanged.failure)},
          {"small_came", exchanged.small_came},
          {"round_trip_us", exchanged.round_trip_us},
          {"bytes_per_s", exchanged.bytes_per_s},
          {"connections", exchanged.connections}};
}

Exchanged exchanged_from(const Json& json) {
  return {json.value("tried", false),
          json.value("code", 0),
          json.value("failure", ""),
          json.value("small_came", false),
          json.value("round_trip_us", 0.),
          json.value("bytes_per_s", 0.),
          json.value("connections", Connections())};
}

Exchanged exchange(const Library& library, sk_comm* comm, int rank, int peer, uint64_t seed,
                   bool brief) {
  const Times& times = brief ? kBrief : kThorough;
  const Pair pair(library, comm, rank, peer);
  Exchanged out;
  out.tried = true;
  Status status = small_messages(pair, times.small, &out);
  if (status.ok()) status = large_messages(pair, rank, peer, seed, times.large, &out);
  out.code = status.code();
  out.failure = status.message();
  return out;
}

}  // namespace sk::doctor
