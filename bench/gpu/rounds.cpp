#include "bench/gpu/rounds.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>

#include "bench/gpu/health.h"

namespace sk::cuda {
namespace {

class Event {
 public:
  explicit Event(const Machine& machine) : machine_(machine) {
    machine.check(machine.device().driver().cuEventCreate(&event_, 0), "cuEventCreate");
  }
  ~Event() { machine_.device().driver().cuEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record() {
    machine_.check(machine_.device().driver().cuEventRecord(event_, machine_.stream()),
                   "cuEventRecord");
  }
  double us_since(const Event& earlier) const {
    float ms = 0;
    machine_.check(machine_.calls().cuEventElapsedTime(&ms, earlier.event_, event_),
                   "cuEventElapsedTime");
    return double(ms) * 1000;
  }

 private:
  const Machine& machine_;
  abi::Event event_ = nullptr;
};

// The candidates in their order, then backwards.
std::vector<size_t> there_and_back(size_t count) {
  std::vector<size_t> order;
  for (size_t i = 0; i < count; ++i) order.push_back(i);
  for (size_t i = count; i-- > 0;) order.push_back(i);
  return order;
}

std::string list(const std::vector<double>& samples) {
  std::vector<std::string> texts;
  for (const double us : samples) texts.push_back(fmt::format("{:.3f}", us));
  return fmt::format("[{}]", fmt::join(texts, ","));
}

struct Prepared {
  int runs = 0;
  std::unique_ptr<Replay> replay;
  std::vector<std::vector<std::string>> rounds;  // By round, then visit: a list of samples.
  std::vector<Health::Reading> readings;         // One for each visit.
};

Prepared prepare(const Machine& machine, const Candidate& candidate, int period,
                 const Effort& effort) {
  const auto of = [&](int runs) {
    return std::make_unique<Replay>(machine, [&] {
      for (int i = 0; i < runs; ++i) candidate.enqueue(i);
    });
  };
  Prepared prepared{period, of(period), {}, {}};
  time_us(machine, *prepared.replay);  // What the first one alone has to do.
  const double us = time_us(machine, *prepared.replay);
  const int times = int(std::clamp(effort.sample_us / std::max(us, 0.1), 1.0,
                                   double(std::max(1, effort.runs_max / period))));
  if (times == 1) return prepared;
  prepared.runs = period * times;
  prepared.replay = of(prepared.runs);
  time_us(machine, *prepared.replay);
  return prepared;
}

}  // namespace

Effort effort(const Machine& machine) {
  return machine.is_real() ? Effort{7, 5, 1000, 256} : Effort{2, 2, 0, 1};
}

double time_us(const Machine& machine, const Replay& replay,
               const std::function<void()>& meanwhile) {
  Event begin(machine), end(machine);
  begin.record();
  replay.launch();
  end.record();
  if (meanwhile) meanwhile();
  machine.synchronize();
  return end.us_since(begin);
}

size_t fastest(const Machine& machine, const std::vector<Candidate>& candidates, int period) {
  constexpr int kTimes = 3;
  const double warm_us = machine.is_real() ? 100'000 : 0;
  std::vector<std::unique_ptr<Replay>> replays;
  for (const Candidate& candidate : candidates) {
    replays.push_back(std::make_unique<Replay>(machine, [&] {
      for (int i = 0; i < period; ++i) candidate.enqueue(i);
    }));
  }
  for (double spent_us = 0; spent_us < warm_us;)
    for (const auto& replay : replays) spent_us += std::max(1.0, time_us(machine, *replay));
  std::vector<std::vector<double>> us(candidates.size());
  for (int time = 0; time < kTimes; ++time)
    for (const size_t i : there_and_back(candidates.size()))
      us[i].push_back(time_us(machine, *replays[i]));
  return least_by_median(std::move(us));
}

size_t least_by_median(std::vector<std::vector<double>> samples) {
  const auto median = [](std::vector<double>& of) {
    std::sort(of.begin(), of.end());
    return (of[(of.size() - 1) / 2] + of[of.size() / 2]) / 2;
  };
  std::vector<double> medians;
  for (std::vector<double>& each : samples) medians.push_back(median(each));
  return size_t(std::min_element(medians.begin(), medians.end()) - medians.begin());
}

void measure(const Machine& machine, const std::string& part, const std::string& name,
             const std::vector<Candidate>& candidates, int period) {
  const Effort wanted = effort(machine);
  const Health health;
  std::vector<Prepared> all;
  for (const Candidate& candidate : candidates) {
    say_begun(fmt::format("{} {}: first runs of {}", part, name, candidate.name));
    all.push_back(prepare(machine, candidate, period, wanted));
  }
  say_begun(fmt::format("{} {}: rounds", part, name));
  for (int round = 0; round < wanted.rounds; ++round) {
    for (Prepared& each : all) each.rounds.emplace_back();
    for (const size_t i : there_and_back(all.size())) {
      std::vector<double> samples;
      // Takes the caches over from the candidate before. No sample, so it may be looked at.
      time_us(machine, *all[i].replay, [&] { all[i].readings.push_back(health.read()); });
      for (int sample = 0; sample < wanted.samples; ++sample)
        samples.push_back(time_us(machine, *all[i].replay) / all[i].runs);
      all[i].rounds.back().push_back(list(samples));
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    std::vector<std::string> rounds;
    for (const auto& visits : all[i].rounds)
      rounds.push_back(fmt::format("[{}]", fmt::join(visits, ",")));
    fmt::print(
        "{{\"part\":{},\"case\":{},\"candidate\":{},\"note\":{},\"runs\":{},\"gpu\":{},"
        "\"rounds\":[{}]}}\n",
        quoted(part), quoted(name), quoted(candidates[i].name), quoted(candidates[i].note),
        all[i].runs, as_json(health, all[i].readings), fmt::join(rounds, ","));
  }
  std::fflush(stdout);
}

void print_absent(const std::string& part, const std::string& name, const std::string& candidate,
                  const std::string& why) {
  fmt::print("{{\"part\":{},\"case\":{},\"candidate\":{},\"absent\":{}}}\n", quoted(part),
             quoted(name), quoted(candidate), quoted(why));
}

void print_samples(const std::string& part, const std::string& name, const std::string& candidate,
                   const std::string& unit, const std::vector<double>& samples) {
  fmt::print("{{\"part\":{},\"case\":{},\"candidate\":{},{}:{}}}\n", quoted(part), quoted(name),
             quoted(candidate), quoted(unit), list(samples));
  std::fflush(stdout);
}

void say_begun(const std::string& what) { std::fprintf(stderr, "%s ...\n", what.c_str()); }

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) out += c;
  }
  return out + '"';
}

}  // namespace sk::cuda
