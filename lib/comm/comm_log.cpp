#include "lib/comm/comm_log.h"

#include "lib/comm/explain.h"

namespace sk {
namespace {

const char* bootstrap_name(int32_t kind) {
  switch (kind) {
    case SK_BOOTSTRAP_ENV:
      return "the launcher's environment";
    case SK_BOOTSTRAP_THREADS:
      return "threads of this process";
    case SK_BOOTSTRAP_CALLBACK:
      return "the caller's all-gather";
    default:
      return "the launcher's environment, if there is one";
  }
}

// "0-3 | 4-7": ranks by host.
std::string hosts_of(const Bootstrap& bootstrap) {
  const std::vector<int>& host_of = bootstrap.host_of();
  std::string out;
  for (size_t first = 0; first < host_of.size(); ++first) {
    if (host_of[first] != int(first)) continue;
    if (!out.empty()) out += " | ";
    std::string ranks;
    for (size_t rank = first; rank < host_of.size(); ++rank) {
      if (host_of[rank] != int(first)) continue;
      size_t last = rank;
      while (last + 1 < host_of.size() && host_of[last + 1] == int(first)) ++last;
      ranks += fmt::format("{}{}", ranks.empty() ? "" : ",",
                           last > rank ? fmt::format("{}-{}", rank, last) : std::to_string(rank));
      rank = last;
    }
    out += ranks;
  }
  return out;
}

}  // namespace

CommLog::CommLog(const Log& log, const Bootstrap& bootstrap)
    : log_(log), rank_(bootstrap.rank()), world_size_(bootstrap.world_size()) {}

void CommLog::say(int32_t level, const std::string& what) const {
  log_.write(level, "comm", fmt::format("rank {} of {}: {}", rank_, world_size_, what));
}

void CommLog::meeting(const BootstrapConfig& config, const Bootstrap& bootstrap) const {
  write(SK_LOG_INFO, [&] {
    return fmt::format("met through {}{}; hosts: {}; local rank {} of {}",
                       bootstrap_name(config.kind),
                       config.name.empty() ? "" : " as \"" + config.name + "\"",
                       hosts_of(bootstrap), bootstrap.local_rank(), bootstrap.local_size());
  });
}

void CommLog::plan(const Plan& plan) const {
  write(SK_LOG_INFO, [&] { return "plan of " + explain(plan, uint32_t(rank_)); });
}

void CommLog::failure(const Status& status, bool ends) {
  if (!ends) return warn("{}: {}", status_name(status.code()), status.message());
  if (std::exchange(has_ended_, true)) return;
  warn("over, {}: {}", status_name(status.code()), status.message());
}

void CommLog::end(uint64_t calls) const { info("freed after {} calls", calls); }

}  // namespace sk
