// What `sk install` does for Julia alone: which Julia, whether it works, and a system image.
#ifndef SK_TOOLS_SK_KERNEL_INSTALL_JULIA_H_
#define SK_TOOLS_SK_KERNEL_INSTALL_JULIA_H_

#include <string>

#include "lib/base/status.h"
#include "tools/sk_kernel/kernelspec.h"

namespace sk::kernel {

// Fills in Julia's program (`given`, or julia in PATH) and version, and the library that its ranks
// load. An error says what is missing: Julia, a newer one, one of its own packages, the libunwind
// that it was built for, or libsk.
Status find_julia(const std::string& given, SpecValues& values);

// A system image of the rank's sources below `folder`, which write_spec() has written; its path.
Result<std::string> make_julia_image(const std::string& folder, const SpecValues& values);

}  // namespace sk::kernel

#endif  // SK_TOOLS_SK_KERNEL_INSTALL_JULIA_H_
