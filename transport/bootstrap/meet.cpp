// Where the ranks of an environment meet. Between hosts rank 0 listens at the address that all were
// told. On one host there is none to be told: the first to come listens at names that all know, so
// also without rank 0 somebody knows who is missing.
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>

#include "transport/bootstrap/address.h"
#include "transport/bootstrap/kinds.h"

namespace sk {
namespace {

constexpr int64_t kLookNs = 1'000'000;

// Communicators of one process that have the same name are made one after the other: each rank is
// at one place at a time. A process may be several ranks, in tests.
class Turn {
 public:
  static Result<Turn> take(const JobEnv& job, int64_t deadline_ns, const Cancel& cancel) {
    std::string key = fmt::format("{} ", job.rank);
    for (const auto& part : {job.job, job.name}) {
      for (const std::byte b : part) key += char(b);
    }
    std::unique_lock lock(all().mutex);
    const auto until = std::chrono::steady_clock::now() +
                       std::chrono::nanoseconds(deadline_ns - bootstrap_clock_ns());
    if (!cancel.wait_until(all().freed, lock, until, [&] { return !all().taken.contains(key); })) {
      SK_RETURN_IF_ERROR(cancel.status());
      return error(SK_ERR_TIMEOUT,
                   "another communicator of this process went on meeting its ranks at {}",
                   job.place());
    }
    all().taken.insert(key);
    return Turn(std::move(key));
  }
  Turn(Turn&& other) noexcept : key_(std::exchange(other.key_, {})) {}
  // How often this rank has met others at this place.
  uint64_t meetings() const {
    const std::lock_guard lock(all().mutex);
    const auto it = all().meetings.find(key_);
    return it == all().meetings.end() ? 0 : it->second;
  }
  void has_met() {
    const std::lock_guard lock(all().mutex);
    ++all().meetings[key_];
  }
  ~Turn() {
    if (key_.empty()) return;
    const std::lock_guard lock(all().mutex);
    all().taken.erase(key_);
    all().freed.notify_all();
  }

 private:
  struct All {
    std::mutex mutex;
    std::condition_variable freed;
    std::set<std::string> taken;
    std::map<std::string, uint64_t> meetings;
  };
  static All& all() {
    static All* instance = new All;  // Never freed: threads may outlive static destruction.
    return *instance;
  }
  explicit Turn(std::string key) : key_(std::move(key)) {}
  std::string key_;
};

Status all_held(const JobEnv& job, const Found& found) {
  if (!found.stranger.ok()) return found.stranger.clone();
  return error(SK_ERR_TRUST,
               "a process that does not listen holds {}: set SK_JOB_ID to something that nobody "
               "else knows, one value on all ranks",
               job.place());
}

// First a look at every name, for another rank may have got those that this one does not get.
// Whoever sees none listens at all that are free; where one is taken meanwhile it looks again, so
// two that come at once end at one place.
BootstrapResult look_here(const JobEnv& job, const BootstrapConfig& config, int64_t deadline_ns) {
  const Cancel& cancel = config.cancel != nullptr ? *config.cancel : Cancel::never();
  std::optional<NameWatch> watch;
  while (true) {
    Found found;
    SK_ASSIGN_OR_RETURN(std::unique_ptr<Bootstrap> member,
                        make_member_bootstrap(job, config, deadline_ns, &found));
    if (member != nullptr) return member;
    if (!watch) watch.emplace(found.states.size());
    if (found.answered) watch->answered();
    const int64_t now_ns = bootstrap_clock_ns();
    for (size_t i = 0; i < found.states.size(); ++i) {
      if (found.states[i] != NameState::kFree) watch->saw(i, found.states[i], now_ns);
      if (watch->given_up(i, now_ns)) found.states[i] = NameState::kDumb;
    }
    const bool over = now_ns >= deadline_ns;
    std::unique_ptr<Port> port;
    if (over || !watch->undecided(found.states, now_ns)) {
      SK_ASSIGN_OR_RETURN(port, Port::open_here(job, found.states));
      for (size_t i = 0; i < found.states.size(); ++i) watch->saw(i, found.states[i], now_ns);
      if (over || !watch->undecided(found.states, now_ns)) {
        if (port->fds().empty()) return all_held(job, found);
        return make_hub_bootstrap(job, config, std::move(port), deadline_ns);
      }
    }
    std::vector<pollfd> none;
    SK_RETURN_IF_ERROR(std::move(cancel.poll(none, kLookNs).status()));
  }
}

BootstrapResult meet_here(JobEnv job, const BootstrapConfig& config, int64_t deadline_ns) {
  const Cancel& cancel = config.cancel != nullptr ? *config.cancel : Cancel::never();
  SK_ASSIGN_OR_RETURN(Turn turn, Turn::take(job, deadline_ns, cancel));
  job.meetings = turn.meetings();
  BootstrapResult made = look_here(job, config, deadline_ns);
  if (made.ok()) turn.has_met();
  return made;
}

}  // namespace

BootstrapResult make_env_bootstrap(const JobEnv& job, const BootstrapConfig& config) {
  const int64_t deadline_ns = bootstrap_clock_ns() + config.timeout_ns;
  // Who is left of ranks that have met has its place since then.
  if (!config.gone) SK_RETURN_IF_ERROR(claim_rank(job));
  if (job.one_host) return meet_here(job, config, deadline_ns);
  if (job.rank != 0) return make_member_bootstrap(job, config, deadline_ns, nullptr);
  const Cancel& cancel = config.cancel != nullptr ? *config.cancel : Cancel::never();
  SK_ASSIGN_OR_RETURN(std::unique_ptr<Port> port, Port::open(job, deadline_ns, cancel));
  return make_hub_bootstrap(job, config, std::move(port), deadline_ns);
}

}  // namespace sk
