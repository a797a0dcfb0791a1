#include "lib/base/cpu_limit.h"

#include "tests/unit/base/fake_root.h"

namespace sk {
namespace {

using CpuLimitOf = FakeRoot;

TEST_F(CpuLimitOf, Version2IsTheTightestOfAllAncestors) {
  EXPECT_EQ(cpu_limit(root_).cpus, UINT32_MAX);
  file("/proc/self/cgroup", "0::/jobs/one\n");
  file("/sys/fs/cgroup/jobs/one/cpu.max", "max 100000\n");
  EXPECT_EQ(cpu_limit(root_).cpus, UINT32_MAX);
  file("/sys/fs/cgroup/jobs/cpu.max", "250000 100000\n");
  const CpuLimit limit = cpu_limit(root_);
  EXPECT_EQ(limit.cpus, 2u);
  file("/sys/fs/cgroup/jobs/one/cpu.max", "50000 100000\n");
  EXPECT_EQ(cpu_limit(root_).cpus, 1u) << "half a CPU runs one worker";
  EXPECT_NE(cpu_limit(root_).group, limit.group);
  file("/sys/fs/cgroup/jobs/one/cpu.max", "400000 100000\n");
  EXPECT_EQ(cpu_limit(root_).cpus, 2u);
  EXPECT_EQ(cpu_limit(root_).group, limit.group);
}

TEST_F(CpuLimitOf, Version1HasItsOwnFiles) {
  file("/proc/self/cgroup", "5:cpuset:/elsewhere\n4:cpu,cpuacct:/box\n");
  file("/sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "-1\n");
  file("/sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_limit(root_).cpus, UINT32_MAX);
  file("/sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "300000\n");
  EXPECT_EQ(cpu_limit(root_).cpus, 3u);
}

}  // namespace
}  // namespace sk
