#include <ctime>

#include "transport/bootstrap/kinds.h"
#include "transport/bootstrap/secret.h"

namespace sk {
namespace {

BootstrapResult make_env_bootstrap(const BootstrapConfig& config, const EnvLookup& env) {
  if (!config.env) take_in_job_secret();
  SK_ASSIGN_OR_RETURN(const JobEnv job, read_job_env(env, config.name));
  if (job.world_size == 1) return make_single_bootstrap();
  return job.rank == 0 ? make_hub_bootstrap(job, config) : make_member_bootstrap(job, config);
}

}  // namespace

BootstrapResult make_bootstrap(const BootstrapConfig& config) {
  const EnvLookup env = config.env ? config.env : EnvLookup(process_env);
  if (config.timeout_ns <= 0) {
    return error(SK_ERR_INVALID_ARGUMENT, "the timeout is {} ns: it must be positive",
                 config.timeout_ns);
  }
  switch (config.kind) {
    case SK_BOOTSTRAP_AUTO:
      // One of the two alone is a mistake to be told, not a world of one.
      if (!env("RANK") && !env("WORLD_SIZE")) return make_single_bootstrap();
      return make_env_bootstrap(config, env);
    case SK_BOOTSTRAP_ENV:
      return make_env_bootstrap(config, env);
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

int64_t bootstrap_clock_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

}  // namespace sk
