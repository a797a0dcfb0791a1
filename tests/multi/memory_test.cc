// A rank that has no memory for a product says so before it moves a byte: its peers are told, and
// all of them can go on once there is memory again.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "sk.h"
#include "transport/local/link.h"

namespace {

constexpr int64_t kSize = 256;
constexpr uint64_t kLeftBytes = 2 << 20;  // Enough for a plan, not for a product's scratch.

uint64_t address_space_bytes() {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * uint64_t(sysconf(_SC_PAGESIZE));
}

void limit_address_space(rlim_t bytes) {
  rlimit limit;
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = std::min(bytes, limit.rlim_max);
  setrlimit(RLIMIT_AS, &limit);
}

sk_tensor matrix(std::vector<float>& data) {
  sk_tensor t{};
  t.struct_size = sizeof(t);
  t.data = data.data();
  t.dtype = SK_F32;
  t.ndim = 2;
  t.shape[0] = t.shape[1] = t.strides[0] = kSize;
  t.strides[1] = 1;
  return t;
}

int complain(const char* what, sk_status status) {
  dprintf(STDERR_FILENO, "rank %s: %s: %s: %s\n", getenv("RANK"), what, sk_status_name(status),
          sk_last_error());
  return 1;
}

// Exit status of one rank: 0 when all went as it should.
int run_rank(int rank, int poor_rank) {
  sk_context* context = nullptr;
  sk_comm* comm = nullptr;
  if (sk_init(nullptr, &context) != SK_OK) return 2;
  if (const sk_status s = sk_comm_create(context, nullptr, &comm); s != SK_OK)
    return complain("create", s);
  std::vector<float> a(kSize * kSize, 1.0f), b(kSize * kSize, 2.0f), c(kSize * kSize, -1.0f);
  const sk_tensor ta = matrix(a), tb = matrix(b);
  sk_tensor tc = matrix(c);
  sk_packed* packed = nullptr;
  if (const sk_status s = sk_pack(comm, &tb, 0, &packed); s != SK_OK) return complain("pack", s);
  if (rank == poor_rank) limit_address_space(address_space_bytes() + kLeftBytes);
  const sk_status refused = sk_allreduce_gemm(comm, &ta, nullptr, packed, &tc, 0, nullptr);
  limit_address_space(RLIM_INFINITY);
  const std::string why = sk_last_error();
  const std::string expected =
      rank == poor_rank ? "scratch memory for matrix products"
                        : "rank " + std::to_string(poor_rank) + " has no memory to take part in";
  const bool named = why.find(expected) != std::string::npos ||
                     (rank == poor_rank && why.find("could not be started") != std::string::npos);
  if (refused != SK_ERR_NO_MEMORY || !named) return complain("without memory", refused);
  for (const float value : c) {
    if (value != -1.0f) return complain("bytes were moved", refused);
  }
  for (int i = 0; i < 3; ++i) {
    const sk_status s = sk_allreduce_gemm(comm, &ta, nullptr, packed, &tc, 0, nullptr);
    if (s != SK_OK) return complain("with memory", s);
  }
  for (const float value : c) {
    if (value != 2.0f * 2.0f * kSize) return complain("wrong sum", SK_OK);
  }
  return sk_packed_free(packed) == SK_OK && sk_comm_free(comm) == SK_OK ? 0 : 3;
}

class Memory : public testing::TestWithParam<int> {};

TEST_P(Memory, ARankWithoutScratchIsRefusedAndItsPeersAreTold) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer's allocator has taken its address space beforehand";
#endif
  for (const int poor_rank : {0, 1}) {
    const auto port = sk::local::hold_port(sk::local::HeldFor::kAnyoneAsks);
    ASSERT_TRUE(port.ok()) << port.status().message();
    std::vector<pid_t> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      const pid_t pid = fork();
      ASSERT_GE(pid, 0);
      if (pid == 0) {
        setenv("RANK", std::to_string(rank).c_str(), 1);
        setenv("WORLD_SIZE", "2", 1);
        setenv("MASTER_ADDR", "127.0.0.1", 1);
        setenv("SK_JOB_SECRET", "a secret of this test", 1);
        setenv("MASTER_PORT", std::to_string(port.value().port).c_str(), 1);
        setenv("SK_WORKERS", std::to_string(GetParam()).c_str(), 1);
        _exit(run_rank(rank, poor_rank));
      }
      ranks.push_back(pid);
    }
    for (const pid_t pid : ranks) {
      int status = 0;
      ASSERT_EQ(waitpid(pid, &status, 0), pid);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Workers, Memory, testing::Values(1, 2));

}  // namespace
