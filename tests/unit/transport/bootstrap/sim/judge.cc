#include "tests/unit/transport/bootstrap/sim/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "sk/base.h"
#include "tests/unit/transport/bootstrap/sim/named.h"

namespace sk::sim {
namespace {

// Behind the end of its time: a member asks who is missing, the hub says farewell.
constexpr int64_t kLastWordNs = 500 * kMs, kFarewellNs = 200 * kMs, kSlackNs = 300 * kMs;
constexpr int64_t kReportNs = 2 * kS;       // Connecting hosts, to say why not.
constexpr int64_t kToldOfDeathNs = 4 * kS;  // By the kernel and the hub, losses included.

class Judge {
 public:
  Judge(const Plan& plan, const Outcome& outcome) : plan_(plan), outcome_(outcome) {}

  std::string all() {
    if (outcome_.spins) fault("somebody spins: too much happened");
    for (size_t i = 0; i < plan_.parts.size(); ++i) {
      if (!begins(i)) continue;
      check_ends(i);
      check_gathers(i);
      check_places(i);
      check_code(i);
      check_names(i);
      check_promptness(i);
    }
    check_success();
    check_survivors();
    return found_.empty() ? "" : found_ + story();
  }
  std::string story() const;

 private:
  void fault(const std::string& sentence) { found_ += sentence + "\n"; }
  bool begins(size_t i) const { return plan_.parts[i].begins_ns >= 0; }
  const Log& log(size_t i) const { return outcome_.logs[i]; }
  bool dies(size_t i) const { return log(i).died_ns >= 0; }
  int rank(size_t i) const { return plan_.parts[i].rank; }
  bool well(size_t i) const {
    const Log& it = log(i);
    return it.ended_ns >= 0 && !it.steps.empty() && it.steps.back().code == SK_OK;
  }
  const Step* failed(size_t i) const {
    const bool has = !log(i).steps.empty() && log(i).steps.back().ended_ns >= 0;
    return has && log(i).steps.back().code != SK_OK ? &log(i).steps.back() : nullptr;
  }

  void check_ends(size_t i);
  void check_gathers(size_t i);
  void check_places(size_t i);
  void check_code(size_t i);
  void check_names(size_t i);
  void check_promptness(size_t i);
  void check_success();
  void check_survivors();
  bool may_name(size_t namer, int rank, int64_t when_ns) const;
  std::optional<std::vector<int>> never_there() const;

  const Plan& plan_;
  const Outcome& outcome_;
  std::string found_;
};

void Judge::check_ends(size_t i) {
  if (dies(i)) return;
  if (log(i).ended_ns < 0) fault(fmt::format("rank {} hangs", rank(i)));
  if (log(i).open > 0)
    fault(fmt::format("rank {} leaves {} descriptors open", rank(i), log(i).open));
  int64_t slack_ns = kLastWordNs + kFarewellNs + kSlackNs + plan_.weather.delay_most_ns +
                     2 * plan_.world_size * plan_.weather.dawdle_most_ns;
  for (const Pause& pause : plan_.pauses)
    if (pause.part == i) slack_ns += pause.ends_ns - pause.begins_ns;
  for (const Step& step : log(i).steps) {
    int64_t most_ns = step.timeout_ns + slack_ns;
    if (step.what == Step::What::kConnect) most_ns += kReportNs;
    // They meet, and gather who is there.
    if (plan_.kind == Kind::kSurvivors && step.what == Step::What::kMeet)
      most_ns += plan_.timeout_ns + slack_ns;
    if (step.ended_ns >= 0 && step.ended_ns - step.began_ns > most_ns)
      fault(fmt::format("rank {} took {} ms for what has {} ms", rank(i),
                        (step.ended_ns - step.began_ns) / kMs, step.timeout_ns / kMs));
  }
}

// What two ranks have of one gather is what all gave, in their order.
void Judge::check_gathers(size_t i) {
  for (const Step& step : log(i).steps) {
    if (step.what != Step::What::kGather || step.code != SK_OK) continue;
    std::vector<std::byte> due;
    for (const int each : log(i).left) {
      const auto part = part_of(plan_, each, size_t(step.number));
      due.insert(due.end(), part.begin(), part.end());
    }
    if (step.got != due)
      fault(fmt::format("rank {} has something else of gather {} than all gave", rank(i),
                        step.number));
  }
}

void Judge::check_places(size_t i) {
  const Log& it = log(i);
  if (it.left.empty()) return;
  if (plan_.kind != Kind::kSurvivors && it.left.size() != size_t(plan_.world_size))
    fault(fmt::format("rank {} has {} ranks of {}", rank(i), it.left.size(), plan_.world_size));
  if (plan_.kind == Kind::kTwice || plan_.kind == Kind::kAgain)
    return;  // Whose host counts is another question.
  std::vector<int> due;
  for (const int each : it.left) {
    const auto same = [&](int other) {
      return plan_.parts[size_t(other)].host == plan_.parts[size_t(each)].host;
    };
    due.push_back(int(std::find_if(it.left.begin(), it.left.end(), same) - it.left.begin()));
  }
  if (due != it.host_of) fault(fmt::format("rank {} takes other ranks for its host's", rank(i)));
}

void Judge::check_code(size_t i) {
  const Step* const step = failed(i);
  if (step == nullptr) return;
  const Part& part = plan_.parts[i];
  std::vector<int32_t> allowed = {SK_ERR_TIMEOUT};
  switch (plan_.kind) {
    case Kind::kCalm:
      return;  // check_success().
    case Kind::kAbsent:
      break;
    case Kind::kDeath:
    case Kind::kCut:
      allowed.push_back(SK_ERR_PEER_LOST);
      if (step->what == Step::What::kConnect) allowed.push_back(SK_ERR_TRANSPORT);
      break;
    case Kind::kAgain:
      return;  // Likewise.
    case Kind::kTwice:
      allowed.push_back(SK_ERR_INVALID_ARGUMENT);
      break;
    case Kind::kWrongSecret:
      break;
    case Kind::kWrongSize:
      if (part.world_size != plan_.world_size) allowed = {SK_ERR_INVALID_ARGUMENT};
      break;
    case Kind::kCancel:
      allowed = {SK_ERR_ABORTED};
      if (part.cancels_ns < 0) allowed = {SK_ERR_ABORTED, SK_ERR_PEER_LOST, SK_ERR_TIMEOUT};
      break;
    case Kind::kSurvivors:  // Without rank 0, or as one that was given up.
      allowed.insert(allowed.end(), {SK_ERR_PEER_LOST, SK_ERR_UNSUPPORTED, SK_ERR_TRANSPORT});
      break;
  }
  if (std::find(allowed.begin(), allowed.end(), step->code) == allowed.end())
    fault(fmt::format("rank {} has an error of class {}, which fits nothing that was done", rank(i),
                      step->code));
}

// Dead, not there, ended before, or not to be reached: by the one that says so, or by the hub.
bool Judge::may_name(size_t namer, int named, int64_t when_ns) const {
  for (size_t i = 0; i < plan_.parts.size(); ++i) {
    if (rank(i) != named) continue;
    const Log& it = log(i);
    const bool ended = it.ended_ns >= 0 && it.ended_ns <= when_ns;
    const bool failed = this->failed(i) != nullptr && this->failed(i)->ended_ns <= when_ns;
    const bool left = !it.steps.empty() && it.steps.front().ended_ns >= 0 &&
                      it.steps.front().code != SK_OK && it.steps.front().ended_ns <= when_ns;
    if (!begins(i) || (it.died_ns >= 0 && it.died_ns <= when_ns) || ended || failed || left)
      return true;
    for (const Cut& cut : plan_.cuts) {
      const auto is_between = [&](int a, int b) {
        return (cut.from == a && cut.to == b) || (cut.from == b && cut.to == a);
      };
      const int own = plan_.parts[i].host, other = plan_.parts[namer].host;
      const bool parts = is_between(own, 0) || is_between(other, 0) || plan_.connects;
      if (!cut.passes() && parts && cut.begins_ns <= when_ns) return true;
    }
    if (plan_.parts[i].other_secret || plan_.parts[i].world_size != plan_.world_size ||
        plan_.parts[namer].other_secret)
      return true;
  }
  return false;
}

// Who is missing for all from the beginning, and so is named by all.
std::optional<std::vector<int>> Judge::never_there() const {
  std::vector<int> out;
  for (size_t i = 0; i < plan_.parts.size(); ++i) {
    const Part& part = plan_.parts[i];
    const bool absent = (plan_.kind == Kind::kAbsent && !begins(i)) ||
                        (plan_.kind == Kind::kWrongSecret && part.other_secret) ||
                        (plan_.kind == Kind::kWrongSize && part.world_size != plan_.world_size);
    if (absent) out.push_back(part.rank);
  }
  return out.empty() ? std::nullopt : std::optional(out);
}

void Judge::check_names(size_t i) {
  const Step* const step = failed(i);
  if (step == nullptr) return;
  const Named named = named_in(step->message);
  for (const std::vector<int>* list : {&named.absent, &named.gone})
    for (const int each : *list)
      if (!may_name(i, each, step->ended_ns))
        fault(fmt::format("rank {} names rank {}, which lives and can be reached", rank(i), each));
  if (step->code == SK_ERR_TIMEOUT && named.absent.empty() && named.gone.empty())
    fault(fmt::format("rank {} does not say for whom it waited", rank(i)));
  const auto missing = never_there();
  if (!missing || plan_.parts[i].other_secret || plan_.parts[i].world_size != plan_.world_size)
    return;
  const bool no_hub = missing->front() == 0 && !plan_.here;
  if (no_hub ? std::find(named.absent.begin(), named.absent.end(), 0) == named.absent.end()
             : named.absent != *missing)
    fault(fmt::format("rank {} does not name who is missing, and nobody else", rank(i)));
}

// Where all kernels can tell that a process has ended, nobody waits for his time to be up.
void Judge::check_promptness(size_t i) {
  const Step* const step = failed(i);
  if (plan_.kind == Kind::kCancel && plan_.parts[i].cancels_ns >= 0 && step != nullptr &&
      step->ended_ns > std::max(plan_.parts[i].cancels_ns, step->began_ns) + kFarewellNs + kSlackNs)
    fault(fmt::format("rank {} was told to end, and went on", rank(i)));
  if (plan_.kind != Kind::kDeath || step == nullptr || step->what == Step::What::kMeet) return;
  int64_t first_ns = INT64_MAX;
  for (size_t other = 0; other < plan_.parts.size(); ++other)
    if (dies(other)) first_ns = std::min(first_ns, log(other).died_ns);
  if (first_ns == INT64_MAX) return;
  if (step->ended_ns > std::max(first_ns, step->began_ns) + kToldOfDeathNs)
    fault(fmt::format("rank {} waited {} ms for one that was dead", rank(i),
                      (step->ended_ns - std::max(first_ns, step->began_ns)) / kMs));
}

void Judge::check_success() {
  // All that is said goes by the hub, which is on host 0; until hosts connect.
  const bool apart =
      plan_.connects || std::any_of(plan_.cuts.begin(), plan_.cuts.end(), [](const Cut& cut) {
        return (cut.from == 0 || cut.to == 0) && !cut.passes();
      });
  if (plan_.kind == Kind::kCalm || (plan_.kind == Kind::kCut && !apart)) {
    for (size_t i = 0; i < plan_.parts.size(); ++i)
      if (!well(i)) fault(fmt::format("rank {} fails, and nothing was done to it", rank(i)));
  }
  if (plan_.kind == Kind::kTwice || plan_.kind == Kind::kAgain) {
    for (int each = 0; each < plan_.world_size; ++each) {
      size_t count = 0;
      for (size_t i = 0; i < plan_.parts.size(); ++i) count += rank(i) == each && well(i) ? 1 : 0;
      if (count != 1) fault(fmt::format("{} processes are rank {}", count, each));
    }
  }
  if (plan_.kind == Kind::kAbsent || plan_.kind == Kind::kWrongSecret ||
      plan_.kind == Kind::kWrongSize) {
    for (size_t i = 0; i < plan_.parts.size(); ++i)
      if (begins(i) && well(i)) fault(fmt::format("rank {} met ranks that are none", rank(i)));
  }
}

void Judge::check_survivors() {
  if (plan_.kind != Kind::kSurvivors) return;
  const std::vector<int>* left = nullptr;
  bool more_die = false;
  for (size_t i = 0; i < plan_.parts.size(); ++i) more_die = more_die || (begins(i) && dies(i));
  for (size_t i = 0; i < plan_.parts.size(); ++i) {
    if (!well(i)) continue;
    if (left != nullptr && *left != log(i).left)
      fault(fmt::format("rank {} takes others for those that are left", rank(i)));
    left = &log(i).left;
    for (const int each : *left)
      if (!begins(size_t(each))) fault(fmt::format("rank {} is left, and was dead", each));
  }
  // Whoever cannot be reached is waited for a quarter of the time, at most ten seconds.
  const int64_t patience_ns = std::min(plan_.timeout_ns / 4, 10 * kS);
  int64_t comes_ns = 0;
  for (const Part& part : plan_.parts) comes_ns = std::max(comes_ns, part.begins_ns);
  const bool too_long = std::any_of(plan_.cuts.begin(), plan_.cuts.end(), [&](const Cut& cut) {
    return !cut.passes() || comes_ns + 2 * cut.ends_ns + 4 * kS > patience_ns;
  });
  if (more_die || too_long || (!begins(0) && !plan_.here)) return;
  for (size_t i = 0; i < plan_.parts.size(); ++i) {
    if (begins(i) && !well(i)) fault(fmt::format("rank {} lives, and is not left", rank(i)));
  }
}

std::string Judge::story() const {
  std::string out = plan_.text() + "\n";
  for (size_t i = 0; i < plan_.parts.size(); ++i) {
    out += fmt::format("  rank {} on host {}, from {} us:", rank(i), plan_.parts[i].host,
                       log(i).began_ns / kUs);
    for (const Step& step : log(i).steps)
      out += fmt::format(" {} [{} to {} us] {} {};",
                         step.what == Step::What::kMeet     ? "meets"
                         : step.what == Step::What::kGather ? "gathers"
                                                            : "connects",
                         step.began_ns / kUs, step.ended_ns / kUs, step.code, step.message);
    if (dies(i)) out += fmt::format(" dead at {} us", log(i).died_ns / kUs);
    out += '\n';
  }
  return out;
}

}  // namespace

std::string judge(const Plan& plan, const Outcome& outcome) { return Judge(plan, outcome).all(); }

std::string story(const Plan& plan, const Outcome& outcome) { return Judge(plan, outcome).story(); }

}  // namespace sk::sim
