// `%sk status`: what the session says of its ranks, as a table.
#ifndef SK_TOOLS_SK_KERNEL_MAGIC_STATUS_H_
#define SK_TOOLS_SK_KERNEL_MAGIC_STATUS_H_

#include <string_view>

#include "tools/sk_kernel/table.h"

namespace sk::kernel {

// `json` is the answer to sk_session_status(). Ranks that are in the same state for the same reason
// share a row; processes and memory are added up.
Table status_table(std::string_view json);

}  // namespace sk::kernel

#endif  // SK_TOOLS_SK_KERNEL_MAGIC_STATUS_H_
