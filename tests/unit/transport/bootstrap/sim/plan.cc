#include "tests/unit/transport/bootstrap/sim/plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace sk::sim {
namespace {

class Draws {
 public:
  explicit Draws(uint64_t seed) : random_(seed * 0x9e3779b97f4a7c15u + 1) {}
  bool one_of(uint64_t many) { return below(many) == 0; }
  uint64_t below(uint64_t end) { return random_() % end; }
  int64_t between(int64_t least, int64_t most) {
    return most <= least ? least : least + int64_t(below(uint64_t(most - least) + 1));
  }

 private:
  std::mt19937_64 random_;
};

Weather draw_weather(Draws& draws) {
  Weather weather;
  weather.delay_least_ns = draws.between(5 * kUs, 500 * kUs);
  weather.delay_most_ns =
      weather.delay_least_ns + draws.between(10 * kUs, draws.one_of(4) ? 80 * kMs : 2 * kMs);
  if (draws.one_of(3)) weather.lost_of_1000 = uint32_t(draws.between(1, 50));
  if (draws.one_of(3))
    weather.room_bytes = size_t(draws.between(2304, 16384));  // Linux has no less.
  if (draws.one_of(3)) weather.piece_bytes_most = size_t(draws.between(1, 200));
  if (draws.one_of(6)) weather.backlog_most = int(draws.between(1, 4));
  if (draws.one_of(2)) {
    weather.dawdle_of_1000 = uint32_t(draws.between(1, 200));
    weather.dawdle_most_ns = draws.between(1 * kUs, 5 * kMs);
  }
  return weather;
}

void draw_world(Draws& draws, Plan& plan) {
  const uint64_t size = draws.below(100);
  plan.world_size = int(size < 70   ? draws.between(2, 6)
                        : size < 96 ? draws.between(7, 16)
                                    : draws.between(17, 64));
  plan.hosts = int(draws.between(1, std::min(plan.world_size, 8)));
  plan.timeout_ns = draws.between(10 * kS, 40 * kS);
  const bool all_at_once = draws.one_of(3);
  for (int rank = 0; rank < plan.world_size; ++rank) {
    Part& part = plan.parts.emplace_back();
    part.rank = rank;
    part.world_size = plan.world_size;
    part.host = rank < plan.hosts ? rank : int(draws.below(uint64_t(plan.hosts)));
    part.begins_ns = all_at_once ? 0 : draws.between(0, draws.one_of(3) ? 2 * kS : 20 * kMs);
  }
}

void draw_gathers(Draws& draws, Plan& plan) {
  for (uint64_t left = draws.below(4); left > 0; --left) {
    Gather& gather = plan.gathers.emplace_back();
    gather.bytes = size_t(draws.one_of(4) ? draws.between(0, 3000) : draws.between(0, 64));
    if (plan.world_size > 16) gather.bytes = std::min<size_t>(gather.bytes, 100);
    gather.timeout_ns = draws.between(8 * kS, 20 * kS);
  }
}

void draw_strangers(Draws& draws, Plan& plan) {
  if (!draws.one_of(3)) return;
  for (int i = 0; i < 2; ++i) {
    Stranger& stranger = plan.strangers.emplace_back();
    stranger.kind = StrangerKind(draws.below(7));
    stranger.begins_ns = draws.between(0, 2 * kS);
    stranger.count = int(draws.one_of(8) ? draws.between(100, 600) : draws.between(1, 10));
    stranger.apart_ns = draws.between(0, stranger.count > 20 ? 2 * kMs : 100 * kMs);
  }
}

// `a` and all others, or `a` and `b`; both ways or one.
void cut_off(Draws& draws, Plan& plan, int64_t begins_ns, int64_t ends_ns) {
  const int a = int(draws.below(uint64_t(plan.hosts)));
  const bool all = draws.one_of(2);
  const int b = int(draws.below(uint64_t(plan.hosts)));
  const uint64_t ways = draws.below(4);
  for (int host = 0; host < plan.hosts; ++host) {
    if (host == a || (!all && host != b)) continue;
    if (ways != 1) plan.cuts.push_back({a, host, begins_ns, ends_ns});
    if (ways != 2) plan.cuts.push_back({host, a, begins_ns, ends_ns});
  }
}

// When something happens: while they meet, or later.
int64_t some_time(Draws& draws) {
  return draws.one_of(2) ? draws.between(0, 20 * kMs) : draws.between(0, 3 * kS);
}

void draw_passing(Draws& draws, Plan& plan) {
  // In all so short that what waits for it has time left, with what TCP adds (network.h).
  if (draws.one_of(3)) {
    const int64_t begins_ns = some_time(draws);
    cut_off(draws, plan, begins_ns, begins_ns + draws.between(1 * kMs, Cut::kPassesNs));
  }
  if (draws.one_of(3)) {
    Pause& pause = plan.pauses.emplace_back();
    pause.part = size_t(draws.below(plan.parts.size()));
    pause.begins_ns = some_time(draws);
    pause.ends_ns = pause.begins_ns + draws.between(1 * kMs, 1500 * kMs);
    pause.descriptors = draws.one_of(2);
  }
}

void draw_death(Draws& draws, Part& part) {
  if (draws.one_of(2)) {
    part.dies_ns = part.begins_ns + some_time(draws);
  } else {
    part.dies_at_send = draws.between(0, 8);
  }
}

size_t some_part(Draws& draws, const Plan& plan, bool not_first) {
  return not_first ? 1 + size_t(draws.below(plan.parts.size() - 1))
                   : size_t(draws.below(plan.parts.size()));
}

void draw_survivors(Draws& draws, Plan& plan) {
  if (draws.one_of(4))
    cut_off(draws, plan, 0, draws.one_of(2) ? INT64_MAX : draws.between(1 * kMs, Cut::kPassesNs));
  for (uint64_t left = draws.between(0, 2); left > 0; --left) {
    Part& part = plan.parts[some_part(draws, plan, !draws.one_of(10))];
    part.begins_ns = -1;
    part.known_gone_ns = some_time(draws);
  }
  if (draws.one_of(2)) {
    Part& part = plan.parts[some_part(draws, plan, !draws.one_of(6))];
    if (part.begins_ns < 0) return;
    draw_death(draws, part);
    part.known_gone_ns = draws.between(0, 500 * kMs);
  }
}

// Little time, in fair weather.
void hurry(Draws& draws, Plan& plan) {
  plan.timeout_ns = draws.between(200 * kMs, 3 * kS);
  plan.weather.lost_of_1000 = 0;
  plan.weather.delay_most_ns = std::min(plan.weather.delay_most_ns, 2 * kMs);
  plan.weather.dawdle_most_ns = std::min(plan.weather.dawdle_most_ns, 50 * kUs);
  plan.weather.backlog_most = 4096;
  plan.strangers.clear();
  for (Part& part : plan.parts) part.begins_ns = std::min(part.begins_ns, plan.timeout_ns / 8);
}

void draw_faults(Draws& draws, Plan& plan) {
  switch (plan.kind) {
    case Kind::kCalm:
      draw_passing(draws, plan);
      return;
    case Kind::kAbsent:
      if (draws.one_of(3)) hurry(draws, plan);
      for (int64_t left = draws.between(1, 3); left > 0; --left)
        plan.parts[some_part(draws, plan, !draws.one_of(4))].begins_ns = -1;
      return;
    case Kind::kDeath:
      for (int64_t left = draws.one_of(3) ? 2 : 1; left > 0; --left)
        draw_death(draws, plan.parts[some_part(draws, plan, !draws.one_of(3))]);
      return;
    case Kind::kCut:
      if (const int64_t begins_ns = some_time(draws); draws.one_of(2)) {
        cut_off(draws, plan, begins_ns, INT64_MAX);
      } else {
        const int64_t most_ns = plan.timeout_ns + plan.timeout_ns / 4;
        cut_off(draws, plan, begins_ns, begins_ns + draws.between(Cut::kPassesNs + 1, most_ns));
      }
      for (Gather& gather : plan.gathers) gather.timeout_ns = draws.between(5 * kS, 20 * kS);
      if (draws.one_of(2)) draw_passing(draws, plan);
      return;
    case Kind::kAgain: {
      Part& first = plan.parts[some_part(draws, plan, true)];
      first.dies_ns = first.begins_ns + draws.between(0, 1 * kS);
      Part next = first;
      next.begins_ns = first.dies_ns + draws.between(0, 1 * kS);
      next.dies_ns = -1;
      // So long they meet: for its successor, or for one more.
      const int last = draws.one_of(2) ? 0 : (first.rank + 1) % plan.world_size;
      plan.parts[size_t(last)].begins_ns = draws.between(5 * kS, 6 * kS);
      plan.parts.push_back(next);
      return;
    }
    case Kind::kTwice: {
      Part again = plan.parts[some_part(draws, plan, true)];
      again.host = int(draws.below(uint64_t(plan.hosts)));
      again.begins_ns += some_time(draws);
      plan.parts.push_back(again);
      return;
    }
    case Kind::kWrongSecret:
      plan.parts[some_part(draws, plan, false)].other_secret = true;
      return;
    case Kind::kWrongSize:
      plan.parts[some_part(draws, plan, true)].world_size += 1;
      return;
    case Kind::kCancel: {
      Part& part = plan.parts[some_part(draws, plan, false)];
      part.cancels_ns = part.begins_ns + some_time(draws);
      return;
    }
    case Kind::kSurvivors:
      draw_survivors(draws, plan);
      return;
  }
}

void meet_here(Plan& plan) {
  plan.here = true;
  plan.hosts = 1;
  for (Part& part : plan.parts) part.host = 0;
  plan.cuts.clear();
  plan.strangers.clear();
  plan.connects = plan.named = plan.any_address = false;
  plan.weather.lost_of_1000 = 0;
  plan.weather.backlog_most = 4096;
  plan.weather.delay_most_ns = std::min(plan.weather.delay_most_ns, 2 * kMs);
}

}  // namespace

const char* name_of(Kind kind) {
  constexpr const char* kNames[kKinds] = {"calm",   "absent",   "death",        "cut",
                                          "again",  "twice",    "wrong secret", "wrong size",
                                          "cancel", "survivors"};
  return kNames[int(kind)];
}

Plan draw_plan(uint64_t seed) {
  Draws draws(seed);
  Plan plan;
  plan.seed = seed;
  constexpr Kind kOften[] = {Kind::kCalm, Kind::kDeath, Kind::kSurvivors, Kind::kCut};
  plan.kind = draws.one_of(2) ? kOften[draws.below(4)] : Kind(draws.below(kKinds));
  plan.weather = draw_weather(draws);
  draw_world(draws, plan);
  // Bytes one by one among few: else nothing comes of it but work.
  if (plan.world_size > 16)
    plan.weather.piece_bytes_most = std::max<size_t>(plan.weather.piece_bytes_most, 500);
  draw_gathers(draws, plan);
  if (draws.one_of(3) && plan.kind <= Kind::kCut) plan.meetings = int(draws.between(2, 3));
  plan.one_name = draws.one_of(2);
  draw_strangers(draws, plan);
  draw_faults(draws, plan);
  plan.connects = plan.hosts > 1 && plan.world_size <= 16 && plan.kind <= Kind::kCut &&
                  plan.kind != Kind::kAbsent && draws.one_of(3);
  plan.named = draws.one_of(5) && plan.timeout_ns >= 10 * kS;
  plan.named_at_ns = draws.one_of(2) ? 0 : draws.between(0, 1 * kS);
  plan.any_address = draws.one_of(8);
  const bool may_be_here = plan.kind == Kind::kCalm || plan.kind == Kind::kAbsent ||
                           plan.kind == Kind::kDeath || plan.kind == Kind::kCancel ||
                           plan.kind == Kind::kSurvivors;
  if (may_be_here && (plan.hosts == 1 || draws.one_of(8))) meet_here(plan);
  // Who has none where it needs one of its own fails, and says so: here it has those.
  for (Pause& pause : plan.pauses) {
    if (plan.here) pause.descriptors = false;  // Whoever comes first listens, at all names.
    if (!pause.descriptors) continue;
    const Part& part = plan.parts[pause.part];
    plan.connects = false;
    const int64_t listens_ns = part.begins_ns + plan.named_at_ns + 300 * kMs;
    const int64_t later_ns =
        part.rank == 0 ? std::max(listens_ns - pause.begins_ns, int64_t{0}) : 0;
    pause.begins_ns += later_ns;
    pause.ends_ns += later_ns;
  }
  return plan;
}

std::string Plan::text() const {
  std::string out = fmt::format("seed {}: {}, {} ranks on {} hosts, {} ms", seed, name_of(kind),
                                world_size, hosts, timeout_ns / kMs);
  for (const Part& part : parts) {
    if (part.begins_ns < 0) out += fmt::format("; rank {} never comes", part.rank);
    if (part.other_secret) out += fmt::format("; rank {} has another secret", part.rank);
    if (part.world_size != world_size) out += fmt::format("; rank {} has another size", part.rank);
    if (part.dies_ns >= 0)
      out += fmt::format("; rank {} dies at {} us", part.rank, part.dies_ns / kUs);
    if (part.dies_at_send != INT64_MAX)
      out += fmt::format("; rank {} dies at its send {}", part.rank, part.dies_at_send);
    if (part.cancels_ns >= 0)
      out += fmt::format("; rank {} gives up at {} us", part.rank, part.cancels_ns / kUs);
  }
  for (const Cut& cut : cuts)
    out +=
        fmt::format("; host {} to {} cut from {} us {}", cut.from, cut.to, cut.begins_ns / kUs,
                    cut.ends_ns == INT64_MAX ? "on" : fmt::format("to {} us", cut.ends_ns / kUs));
  for (const Pause& pause : pauses)
    out += fmt::format("; rank {} {} from {} us to {} us", parts[pause.part].rank,
                       pause.descriptors ? "has no descriptors" : "is stopped",
                       pause.begins_ns / kUs, pause.ends_ns / kUs);
  for (const Stranger& stranger : strangers)
    out += fmt::format("; {} strangers of kind {} from {} us", stranger.count, int(stranger.kind),
                       stranger.begins_ns / kUs);
  if (meetings > 1) out += fmt::format("; {} meetings{}", meetings, one_name ? " of one name" : "");
  out += fmt::format("; {} gathers{}{}{}{}", gathers.size(), connects ? "; hosts connect" : "",
                     named ? "; by a name" : "", here ? "; at this host's names" : "",
                     any_address ? "; any address" : "");
  return out;
}

}  // namespace sk::sim
