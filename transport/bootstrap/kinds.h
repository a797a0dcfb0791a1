// The ways to find each other, one maker each; make_bootstrap() chooses.
#ifndef SK_TRANSPORT_BOOTSTRAP_KINDS_H_
#define SK_TRANSPORT_BOOTSTRAP_KINDS_H_

#include "transport/bootstrap/bootstrap.h"
#include "transport/bootstrap/env.h"

namespace sk {

using BootstrapResult = Result<std::unique_ptr<Bootstrap>>;

BootstrapResult make_single_bootstrap();
BootstrapResult make_threads_bootstrap(const BootstrapConfig& config);
BootstrapResult make_callback_bootstrap(const BootstrapConfig& config);
// Rank 0, and the others.
BootstrapResult make_hub_bootstrap(const JobEnv& job, const BootstrapConfig& config);
BootstrapResult make_member_bootstrap(const JobEnv& job, const BootstrapConfig& config);

// "ranks 1-3 and 7": how every error here names ranks. `missing[r]` says whether r is meant.
std::string rank_list(const std::vector<bool>& missing);

// Monotonic, in nanoseconds: every bound of a wait here is a point on this clock.
int64_t bootstrap_clock_ns();

}  // namespace sk

#endif  // SK_TRANSPORT_BOOTSTRAP_KINDS_H_
