// The secret of a job, from whoever starts its ranks to the ranks: in a descriptor that they
// inherit, for everyone of this user can read a process's environment and command line.
#ifndef SK_TRANSPORT_LOCAL_SECRET_H_
#define SK_TRANSPORT_LOCAL_SECRET_H_

#include <cstddef>
#include <string>

#include "lib/base/status.h"
#include "transport/local/fd.h"

namespace sk::local {

// `bytes` random bytes, two hexadecimal digits each.
Result<std::string> random_hex(size_t bytes);

// A secret in a file without a name that nobody can change; close-on-exec. SK_JOB_SECRET_FD names
// it to a rank (docs/env.md).
Result<Fd> keep_job_secret(const std::string& secret);
Result<Fd> make_job_secret();  // A new one.

}  // namespace sk::local

#endif  // SK_TRANSPORT_LOCAL_SECRET_H_
