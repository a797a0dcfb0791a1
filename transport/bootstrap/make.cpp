#include <algorithm>
#include <ctime>

#include "transport/bootstrap/kinds.h"
#include "transport/bootstrap/secret.h"

namespace sk {
namespace {

// Numbers that the caller gives beside the launcher's must be the same: a rank that believes in
// others than it has would return its own numbers as everybody's.
Status check_given(const BootstrapConfig& config, const std::optional<Identity>& identity) {
  if (config.rank == 0 && config.world_size == 0) return {};
  const int rank = identity ? identity->rank : 0;
  const int world_size = identity ? identity->world_size : 1;
  if (config.rank == rank && config.world_size == world_size) return {};
  if (!identity) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "rank is {} and world_size {}, and nothing says how to find the others: set "
                 "bootstrap to SK_BOOTSTRAP_THREADS or SK_BOOTSTRAP_CALLBACK, or leave both 0 and "
                 "start the ranks with sk run, torchrun, mpirun or srun",
                 config.rank, config.world_size);
  }
  return error(SK_ERR_INVALID_ARGUMENT,
               "rank is {} and world_size {} where the environment variables {} and {} are {} and "
               "{}: leave both 0, or set bootstrap to SK_BOOTSTRAP_THREADS or "
               "SK_BOOTSTRAP_CALLBACK",
               config.rank, config.world_size, identity->rank_variable,
               identity->world_size_variable, identity->rank, identity->world_size);
}

BootstrapResult make_launched_bootstrap(const BootstrapConfig& config, const EnvLookup& env) {
  SK_ASSIGN_OR_RETURN(std::optional<Identity> identity, read_identity(env));
  SK_RETURN_IF_ERROR(check_given(config, identity));
  if (!identity && config.kind == SK_BOOTSTRAP_ENV && !env("SK_BOOTSTRAP")) {
    return error(
        SK_ERR_INVALID_ARGUMENT,
        "the environment variable WORLD_SIZE is not set: it must be the number of ranks, "
        "and RANK this one's; sk run and torchrun set them, mpirun and srun what is theirs");
  }
  if (identity && !config.env) take_in_job_secret();
  if (!identity || identity->world_size == 1) return make_single_bootstrap();
  // The name of who is left of a communicator is nobody else's. Rank 0 may be gone.
  if (config.met_on_one_host && !identity->can_meet_here()) {
    identity->one_host = true;
    identity->hosts = "all ranks were on this host";
    identity->job = config.name;
  }
  SK_ASSIGN_OR_RETURN(const JobEnv job, read_job_env(env, *identity, config.name));
  const int64_t begin_ns = bootstrap_clock_ns();
  SK_ASSIGN_OR_RETURN(std::unique_ptr<Bootstrap> all, make_env_bootstrap(job, config));
  if (!config.gone) return all;
  const int64_t left_ns = time_left_ns(begin_ns + config.timeout_ns);
  return make_survivors_bootstrap(std::move(all), config, left_ns);
}

}  // namespace

BootstrapResult make_bootstrap(const BootstrapConfig& config) {
  const EnvLookup env = config.env ? config.env : EnvLookup(process_env);
  if (config.timeout_ns <= 0) {
    return error(SK_ERR_INVALID_ARGUMENT, "the timeout is {} ns: it must be positive",
                 config.timeout_ns);
  }
  // Where all others wait already, nothing is left whose wait would see it: this rank would
  // complete a meeting that it then leaves, and end those who could have gone on waiting for it.
  // CALLBACK's all-gather must be called on every rank or on none.
  if (config.cancel != nullptr && config.kind != SK_BOOTSTRAP_CALLBACK) {
    SK_RETURN_IF_ERROR(config.cancel->status());
  }
  switch (config.kind) {
    case SK_BOOTSTRAP_AUTO:
    case SK_BOOTSTRAP_ENV:
      return make_launched_bootstrap(config, env);
    case SK_BOOTSTRAP_THREADS:
      return make_threads_bootstrap(config);
    case SK_BOOTSTRAP_CALLBACK:
      return make_callback_bootstrap(config);
    default:
      return error(SK_ERR_INVALID_ARGUMENT,
                   "bootstrap is {}: it must be one of enum sk_bootstrap, {} to {}", config.kind,
                   int(SK_BOOTSTRAP_AUTO), int(SK_BOOTSTRAP_CALLBACK));
  }
}

std::string rank_list(const std::vector<bool>& missing) {
  std::string out;
  size_t ranges = 0;
  bool several = false;
  for (size_t r = 0; r < missing.size(); ++r) {
    if (!missing[r]) continue;
    size_t last = r;
    while (last + 1 < missing.size() && missing[last + 1]) ++last;
    several = several || last > r || ranges > 0;
    if (ranges < 16) {
      out += fmt::format("{}{}", ranges > 0 ? ", " : "",
                         last > r ? fmt::format("{}-{}", r, last) : fmt::format("{}", r));
    }
    ++ranges;
    r = last;
  }
  if (ranges > 16) out += fmt::format(" and {} more ranges", ranges - 16);
  if (ranges == 0) return "no rank";
  return (several ? "ranks " : "rank ") + out;
}

std::string absent_list(const std::vector<bool>& missing, const std::vector<bool>& came) {
  std::vector<bool> never = missing, gone = missing;
  for (size_t r = 0; r < missing.size(); ++r) {
    gone[r] = missing[r] && came[r];
    never[r] = missing[r] && !came[r];
  }
  const auto any = [](const std::vector<bool>& flags) {
    return std::find(flags.begin(), flags.end(), true) != flags.end();
  };
  if (!any(gone)) return rank_list(never) + " did not come";
  const std::string left = rank_list(gone) + " came and gave up";
  return any(never) ? fmt::format("{} did not come and {}", rank_list(never), left) : left;
}

int64_t bootstrap_clock_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

int64_t time_left_ns(int64_t deadline_ns) {
  constexpr int64_t kToTellNs = 1'000'000'000;
  return std::max<int64_t>(deadline_ns - bootstrap_clock_ns(), 0) + kToTellNs;
}

}  // namespace sk
