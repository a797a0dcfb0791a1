#include "tools/sk_doctor/exchange.h"

#include <algorithm>
#include <random>
#include <vector>

#include "tools/sk_doctor/child.h"

namespace sk::doctor {
namespace {

constexpr int64_t kWords = kExchangeBytes / int64_t(sizeof(int64_t));
constexpr int kRoundTrips = 20;
constexpr int kExchanges = 2;  // The first makes plans and warms caches; the faster one is told.

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
  std::mt19937_64 random(seed);
  Words words(kWords);
  std::generate(words.begin(), words.end(), [&] { return int64_t(random()); });
  return words;
}

Status small_messages(const Pair& pair, Exchanged* out) {
  Words mine = {1}, theirs = {0};
  SK_RETURN_IF_ERROR(pair.both_ways(mine, theirs));
  out->small_came = true;
  int64_t least_ns = INT64_MAX;
  for (int i = 0; i < kRoundTrips; ++i) {
    const int64_t begin_ns = clock_ns();
    SK_RETURN_IF_ERROR(pair.both_ways(mine, theirs));
    least_ns = std::min(least_ns, clock_ns() - begin_ns);
  }
  out->round_trip_us = double(least_ns) / 1e3;
  return {};
}

Status large_messages(const Pair& pair, int rank, int peer, uint64_t seed, Exchanged* out) {
  for (int i = 0; i < kExchanges; ++i) {
    const auto seed_of = [&](int whose) { return (seed * kExchanges + i) << 13 ^ uint64_t(whose); };
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
          {"bytes_per_s", exchanged.bytes_per_s}};
}

Exchanged exchanged_from(const Json& json) {
  return {json.value("tried", false),      json.value("code", 0),
          json.value("failure", ""),       json.value("small_came", false),
          json.value("round_trip_us", 0.), json.value("bytes_per_s", 0.)};
}

Exchanged exchange(const Library& library, sk_comm* comm, int rank, int peer, uint64_t seed) {
  const Pair pair(library, comm, rank, peer);
  Exchanged out;
  out.tried = true;
  Status status = small_messages(pair, &out);
  if (status.ok()) status = large_messages(pair, rank, peer, seed, &out);
  out.code = status.code();
  out.failure = status.message();
  return out;
}

}  // namespace sk::doctor
