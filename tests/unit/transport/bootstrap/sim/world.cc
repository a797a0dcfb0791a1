#include "tests/unit/transport/bootstrap/sim/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tests/unit/transport/bootstrap/sim/alone.h"
#include "tests/unit/transport/bootstrap/sim/strangers.h"
#include "transport/bootstrap/bootstrap.h"
#include "transport/tcp/tcp.h"

namespace sk::sim {
namespace {

class Run {
 public:
  explicit Run(const Plan& plan)
      : plan_(plan),
        network_(fibers_, plan.seed, plan.weather, size_t(plan.hosts) + 2),
        begin_ns_(fibers_.now_ns()) {
    outcome_.logs.resize(plan.parts.size());
  }
  Outcome run();

 private:
  int64_t clock_ns() const { return fibers_.now_ns() - begin_ns_; }
  void at(int64_t when_ns, std::function<void()> what) {
    if (when_ns != INT64_MAX) fibers_.at(begin_ns_ + when_ns, std::move(what));
  }
  void start_parts();
  void start_faults();
  void live(size_t number);
  Status meet(size_t number, int meeting, std::unique_ptr<Bootstrap>& bootstrap);
  Status meet_and_gather(size_t number, int meeting);
  BootstrapConfig config_of(size_t number);
  Gone gone(const Part& asks, int rank) const;
  template <typename Body>
  Status step(size_t number, Step step, const Body& body);

  const Plan& plan_;
  Fibers fibers_;
  Network network_;
  const int64_t begin_ns_;
  const std::string job_ = fmt::format("simulation {:08}", ++runs);
  static inline uint64_t runs = 0;
  std::vector<int> processes_;  // By part; -1: it never comes.
  Outcome outcome_;
};

Gone Run::gone(const Part& asks, int rank) const {
  for (size_t i = 0; i < plan_.parts.size(); ++i) {
    const Part& part = plan_.parts[i];
    if (part.rank != rank) continue;
    const int64_t died_ns = part.begins_ns < 0 ? 0 : outcome_.logs[i].died_ns;
    if (died_ns >= 0 && clock_ns() >= died_ns + std::max<int64_t>(part.known_gone_ns, 0))
      return Gone::kYes;
    // Its connection was lost at the beginning, and nobody has made it anew.
    for (const Cut& cut : plan_.cuts)
      if (cut.begins_ns == 0 && ((cut.from == part.host && cut.to == asks.host) ||
                                 (cut.to == part.host && cut.from == asks.host)))
        return Gone::kUnreachable;
  }
  return Gone::kNo;
}

BootstrapConfig Run::config_of(size_t number) {
  const Part& part = plan_.parts[number];
  BootstrapConfig config;
  config.kind = SK_BOOTSTRAP_ENV;
  config.timeout_ns = plan_.timeout_ns;
  std::map<std::string, std::string> variables = {
      {"RANK", std::to_string(part.rank)},
      {"WORLD_SIZE", std::to_string(part.world_size)},
      {"MASTER_ADDR", plan_.named ? "hub.example" : "10.0.0.1"},
      {"MASTER_PORT", std::to_string(kPort)},
      {"SK_LISTEN", plan_.any_address ? "any" : "master"},
      {"SK_JOB_SECRET", part.other_secret ? "what others believe in" : "a secret of all tests"}};
  if (plan_.here) {
    for (const char* each : {"MASTER_ADDR", "MASTER_PORT", "SK_LISTEN"}) variables.erase(each);
    variables["LOCAL_RANK"] = variables["RANK"];
    variables["LOCAL_WORLD_SIZE"] = variables["WORLD_SIZE"];
  }
  // How often a job's ranks have met is counted as long as this program lives.
  variables["SK_JOB_ID"] = job_;
  config.env = [variables](const char* name) -> std::optional<std::string> {
    const auto it = variables.find(name);
    return it == variables.end() ? std::nullopt : std::optional(it->second);
  };
  if (plan_.kind == Kind::kSurvivors)
    config.gone = [this, &part](int rank) { return gone(part, rank); };
  return config;
}

template <typename Body>
Status Run::step(size_t number, Step step, const Body& body) {
  Log& log = outcome_.logs[number];
  step.began_ns = clock_ns();
  log.steps.push_back(step);
  Status status = body(log.steps.back());
  Step& done = log.steps.back();
  done.ended_ns = clock_ns();
  done.code = status.code();
  done.message = status.message();
  if (const size_t at = done.message.find(job_); at != std::string::npos)
    done.message.erase(at, job_.size());  // It is of this run, not of the seed.
  return status;
}

// Survivors try again where one more is lost, as sk_comm_shrink() does, within one timeout.
Status Run::meet(size_t number, int meeting, std::unique_ptr<Bootstrap>& bootstrap) {
  BootstrapConfig config = config_of(number);
  if (!plan_.one_name) config.name = fmt::format("meeting {}", meeting);
  const Part& part = plan_.parts[number];
  if (part.cancels_ns >= 0) {
    Result<std::shared_ptr<Cancel>> cancel = Cancel::make(-1);
    if (!cancel.ok()) return std::move(cancel.status());
    config.cancel = cancel.value();
    const int process = processes_[number];
    at(part.cancels_ns, [this, process, cancel = std::weak_ptr<Cancel>(cancel.value())] {
      if (const auto it = cancel.lock()) {
        it->request(error(SK_ERR_ABORTED, "enough"));
        network_.ring(process);
      }
    });
  }
  const int64_t end_ns = clock_ns() + config.timeout_ns;
  while (true) {
    config.timeout_ns = std::max<int64_t>(end_ns - clock_ns(), 1);
    const Status met = step(number, {.what = Step::What::kMeet, .timeout_ns = config.timeout_ns},
                            [&](Step&) -> Status {
                              SK_ASSIGN_OR_RETURN(bootstrap, make_bootstrap(config));
                              return {};
                            });
    const bool again = plan_.kind == Kind::kSurvivors && met.code() == SK_ERR_PEER_LOST;
    if (!again || clock_ns() >= end_ns) return met.clone();
  }
}

Status Run::meet_and_gather(size_t number, int meeting) {
  Log& log = outcome_.logs[number];
  std::unique_ptr<Bootstrap> bootstrap;
  SK_RETURN_IF_ERROR(meet(number, meeting, bootstrap));
  log.host_of = bootstrap->host_of();
  log.left.clear();
  for (int rank = 0; rank < bootstrap->world_size(); ++rank)
    log.left.push_back(bootstrap->launched_as(rank));
  for (size_t i = 0; i < plan_.gathers.size(); ++i) {
    const int64_t timeout_ns = plan_.gathers[i].timeout_ns;
    SK_RETURN_IF_ERROR(
        step(number, {.what = Step::What::kGather, .number = int(i), .timeout_ns = timeout_ns},
             [&](Step& done) -> Status {
               SK_ASSIGN_OR_RETURN(
                   done.got,
                   bootstrap->allgather(part_of(plan_, plan_.parts[number].rank, i), timeout_ns));
               return {};
             }));
  }
  if (!plan_.connects) return {};
  return step(number, {.what = Step::What::kConnect, .timeout_ns = plan_.timeout_ns},
              [&](Step&) -> Status {
                return std::move(connect_alone(*bootstrap, plan_.timeout_ns).status());
              });
}

// What became of each call is in its log.
void Run::live(size_t number) {
  Log& log = outcome_.logs[number];
  log.began_ns = clock_ns();
  for (int meeting = 0; meeting < plan_.meetings; ++meeting)
    if (!meet_and_gather(number, meeting).ok()) break;
  log.open = network_.process(processes_[number]).open.size();
  log.ended_ns = clock_ns();
}

void Run::start_parts() {
  for (size_t i = 0; i < plan_.parts.size(); ++i) {
    const Part& part = plan_.parts[i];
    processes_.push_back(-1);
    if (part.begins_ns < 0) continue;
    processes_[i] = network_.start(part.host, begin_ns_ + part.begins_ns, [this, i] { live(i); });
    Process& process = network_.process(processes_[i]);
    process.dies_at_send = part.dies_at_send;
    process.died = [this, i] { outcome_.logs[i].died_ns = clock_ns(); };
    if (part.dies_ns >= 0) at(part.dies_ns, [this, i] { network_.kill(processes_[i]); });
  }
}

void Run::start_faults() {
  for (const Cut& cut : plan_.cuts) {
    at(cut.begins_ns, [this, cut] { network_.cut(cut.from, cut.to); });
    at(cut.ends_ns, [this, cut] { network_.heal(cut.from, cut.to); });
  }
  for (const Pause& pause : plan_.pauses) {
    const int process = processes_[pause.part];
    at(pause.begins_ns, [this, pause, process] {
      if (!pause.descriptors) return network_.stop(process, begin_ns_ + pause.ends_ns);
      Process& it = network_.process(process);
      it.open_most = it.open.size() + size_t(network_.draw(3));
    });
    at(pause.ends_ns, [this, process] { network_.process(process).open_most = SIZE_MAX; });
  }
  // Their own host, from which all others are reached.
  for (const Stranger& stranger : plan_.strangers)
    network_.start(plan_.hosts, begin_ns_ + stranger.begins_ns,
                   [this, &stranger] { be_stranger(network_, stranger, plan_.world_size); });
}

Outcome Run::run() {
  if (plan_.named) {
    // The first is of a host that nobody reaches: it does not even refuse.
    network_.names["hub.example"] = {{Network::address_of(plan_.hosts + 1), Network::address_of(0)},
                                     begin_ns_ + plan_.named_at_ns};
    for (int host = 0; host <= plan_.hosts; ++host) network_.cut(host, plan_.hosts + 1);
  }
  start_parts();
  start_faults();
  // What goes on after the last bound of all of them hangs.
  int64_t limit_ns = 4 * plan_.timeout_ns + 60 * kS;
  for (const Gather& gather : plan_.gathers) limit_ns += gather.timeout_ns + kS;
  limit_ns *= plan_.meetings;
  fibers_.run(begin_ns_ + limit_ns);
  outcome_.spins = fibers_.happened() >= Fibers::kHappensMost || network_.anybody_spins();
  outcome_.ended_ns = clock_ns();
  return std::move(outcome_);
}

}  // namespace

std::vector<std::byte> part_of(const Plan& plan, int rank, size_t number) {
  std::vector<std::byte> out(plan.gathers[number].bytes);
  uint64_t state = plan.seed * 1'000'003 + uint64_t(rank) * 1009 + number * 31 + 7;
  for (std::byte& each : out) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    each = std::byte(state >> 56);
  }
  return out;
}

Outcome run(const Plan& plan) { return Run(plan).run(); }

}  // namespace sk::sim
