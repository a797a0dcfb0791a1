// How a kernel's session outlives its front end, and how the next front end finds it.
#ifndef SK_TOOLS_SK_KERNEL_LEASE_H_
#define SK_TOOLS_SK_KERNEL_LEASE_H_

#include <string>

#include "tools/sk_kernel/front.h"

namespace sk::kernel {

// Who is started on the same connection file finds the session: its key names it, and shows that
// we may have it.
struct Lease {
  std::string name;  // "": nobody can attach.
  std::string token;
  int64_t ms = 0;
};

// What SK_LEASE_S says, in seconds.
Result<int64_t> parse_lease(const std::string& text);

// From SK_LEASE_S, seconds, 300 when it is not set; `key` is the connection file's.
Result<Lease> choose_lease(const std::string& key);

// Attaches to the session of the lease if there is one; else opens one as `config` says. Where it
// cannot be found later, that is said on stderr.
Result<OpenedSession> attach_or_open(const Lease& lease, sk_session_config config);

}  // namespace sk::kernel

#endif  // SK_TOOLS_SK_KERNEL_LEASE_H_
