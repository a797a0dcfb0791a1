#include "lib/base/memory_limit.h"

#include "tests/unit/base/fake_root.h"

namespace sk {
namespace {

using MemoryLimit = FakeRoot;

TEST_F(MemoryLimit, IsTheTightestOfMachineAndGroups) {
  EXPECT_EQ(memory_available(root_), UINT64_MAX);
  file("/proc/meminfo", "MemTotal:  9000 kB\nMemFree: 10 kB\nMemAvailable:    4000 kB\n");
  EXPECT_EQ(memory_available(root_), 4'096'000u);
  file("/proc/self/cgroup", "0::/jobs/one\n");
  file("/sys/fs/cgroup/jobs/one/memory.max", "max\n");
  file("/sys/fs/cgroup/jobs/one/memory.current", "5000\n");
  EXPECT_EQ(memory_available(root_), 4'096'000u);
  file("/sys/fs/cgroup/jobs/memory.max", "100000\n");
  file("/sys/fs/cgroup/jobs/memory.current", "70000\n");
  file("/sys/fs/cgroup/jobs/memory.stat", "anon 60000\nactive_file 1000\ninactive_file 9000\n");
  EXPECT_EQ(memory_available(root_), 40'000u);
  file("/proc/self/cgroup", "9:name=systemd:/\n4:memory:/box\n1:cpu:/\n0::/jobs/one\n");
  file("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "30000\n");
  file("/sys/fs/cgroup/memory/box/memory.usage_in_bytes", "31000\n");
  EXPECT_EQ(memory_available(root_), 0u);
}

TEST_F(MemoryLimit, NamesTheGroupThatHasLeast) {
  file("/proc/meminfo", "MemAvailable:    4000 kB\n");
  file("/proc/self/cgroup", "0::/jobs/one\n");
  EXPECT_EQ(memory_room(root_).group_limit, "");
  file("/sys/fs/cgroup/jobs/one/memory.max", "90000\n");
  file("/sys/fs/cgroup/jobs/one/memory.current", "5000\n");
  file("/sys/fs/cgroup/jobs/memory.max", "100000\n");
  file("/sys/fs/cgroup/jobs/memory.current", "70000\n");
  const MemoryRoom room = memory_room(root_);
  EXPECT_EQ(room.machine, 4'096'000u);
  EXPECT_EQ(room.group, 30'000u);
  EXPECT_EQ(room.group_limit, "/sys/fs/cgroup/jobs/memory.max");
}

}  // namespace
}  // namespace sk
