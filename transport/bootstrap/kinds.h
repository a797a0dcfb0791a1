// The ways to find each other, one maker each; make_bootstrap() chooses.
#ifndef SK_TRANSPORT_BOOTSTRAP_KINDS_H_
#define SK_TRANSPORT_BOOTSTRAP_KINDS_H_

#include "transport/bootstrap/bootstrap.h"
#include "transport/bootstrap/env.h"
#include "transport/bootstrap/port.h"

namespace sk {

using BootstrapResult = Result<std::unique_ptr<Bootstrap>>;

BootstrapResult make_single_bootstrap();
BootstrapResult make_threads_bootstrap(const BootstrapConfig& config);
BootstrapResult make_callback_bootstrap(const BootstrapConfig& config);
// By environment: rank 0 is the hub of the others, its members; on one host whoever comes first is.
BootstrapResult make_env_bootstrap(const JobEnv& job, const BootstrapConfig& config);
// Of `all`, who meet by environment, those that are left, numbered anew in their order.
BootstrapResult make_survivors_bootstrap(std::unique_ptr<Bootstrap> all,
                                         const BootstrapConfig& config, int64_t timeout_ns);
BootstrapResult make_hub_bootstrap(const JobEnv& job, const BootstrapConfig& config,
                                   std::unique_ptr<Port> port, int64_t deadline_ns);

// What a rank of a job on one host found at its names.
struct Found {
  std::vector<NameState> states;
  Status stranger;        // A sentence about the last stranger.
  bool answered = false;  // A rank of this job was there meanwhile.
};
// Null when no rank listens at a name of one host: the caller may.
BootstrapResult make_member_bootstrap(const JobEnv& job, const BootstrapConfig& config,
                                      int64_t deadline_ns, Found* found);

// Makes this process the one that is `rank` of its job, until it ends: children inherit the
// variables that say so, and must neither take their parent's place nor wait where nobody comes.
// SK_ERR_INVALID_ARGUMENT names the process that is it already.
Status claim_rank(const JobEnv& job);

// "ranks 1-3 and 7": how every error here names ranks. `missing[r]` says whether r is meant.
std::string rank_list(const std::vector<bool>& missing);

// "rank 2 did not come and rank 1 came and gave up": `missing` are those who are not there, `came`
// says who was.
std::string absent_list(const std::vector<bool>& missing, const std::vector<bool>& came);

}  // namespace sk

#endif  // SK_TRANSPORT_BOOTSTRAP_KINDS_H_
