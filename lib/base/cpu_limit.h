// How many CPUs' time this process may use, which in a container is often less than the CPUs that
// it may run on.
#ifndef SK_LIB_BASE_CPU_LIMIT_H_
#define SK_LIB_BASE_CPU_LIMIT_H_

#include <cstdint>
#include <string>

namespace sk {

struct CpuLimit {
  uint32_t cpus = UINT32_MAX;  // Whole ones, at least 1; UINT32_MAX: no limit.
  // Which control group has it: processes of one share it. Equal on one host for equal groups.
  uint64_t group = 0;
};

// The tightest of the control groups of this process. `root` is "" but in tests.
CpuLimit cpu_limit(const std::string& root);

}  // namespace sk

#endif  // SK_LIB_BASE_CPU_LIMIT_H_
