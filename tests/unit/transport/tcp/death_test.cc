// A rank that dies while hosts connect: the others hear of it by where they met, not from its port.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "tests/support/apart.h"
#include "tests/unit/transport/bootstrap/world.h"

namespace sk {
namespace {

using namespace sk::testing_support;
using testing::HasSubstr;

constexpr int kRanks = 3;
// Before a port at which nobody listens is given up.
constexpr std::chrono::seconds kSoon{5};

// Counts the gathers, and dies behind one of them.
class Mortal final : public Bootstrap {
 public:
  Mortal(Bootstrap& inner, int lives)
      : Bootstrap(inner.rank(), inner.world_size()), inner_(inner), lives_(lives) {}
  Result<std::vector<std::byte>> allgather(std::span<const std::byte> mine,
                                           int64_t timeout_ns) override {
    auto all = inner_.allgather(mine, timeout_ns);
    ++gathers_;
    if (--lives_ == 0) _exit(0);
    return all;
  }
  void add_polls(std::vector<pollfd>& polls) const override { inner_.add_polls(polls); }
  Status news() override { return inner_.news(); }
  int gathers() const { return gathers_; }

 private:
  Bootstrap& inner_;
  int lives_;
  int gathers_ = 0;
};

// As a rank, each on a host of its own. `gathers`: how many it took.
Status connect(int rank, int port, int lives, int* gathers = nullptr) {
  SK_ASSIGN_OR_RETURN(const auto met,
                      make_bootstrap(env_config(job_variables(rank, kRanks, port), kLong)));
  Mortal mortal(*met, lives);
  const SegmentLayout layout = {
      .world_size = kRanks, .signal_count_max = 64, .workspace_bytes_max = 1 << 20};
  const auto endpoint = connect_apart(mortal, layout, /*ranks_per_host=*/1, kLong);
  if (gathers != nullptr) *gathers = mortal.gathers();
  return endpoint.status().clone();
}

int gathers_of_connecting() {
  const HeldPort port;
  int gathers = 0;
  on_ranks(kRanks, [&](int rank) {
    const Status status = connect(rank, port.number(), 0, rank == 0 ? &gathers : nullptr);
    EXPECT_TRUE(status.ok()) << status.message();
  });
  return gathers;
}

// With the last gather ranks say how connecting went, so behind the last but one they connect.
void expect_death_is_heard(int victim) {
  const HeldPort port;
  const int lives = gathers_of_connecting() - 1;
  ASSERT_GT(lives, 0);
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    (void)connect(victim, port.number(), lives);
    _exit(1);  // It should have died.
  }
  on_ranks(kRanks, [&](int rank) {
    if (rank == victim) return;
    const auto start = std::chrono::steady_clock::now();
    const Status status = connect(rank, port.number(), 0);
    EXPECT_LT(std::chrono::steady_clock::now() - start, kSoon);
    EXPECT_EQ(status.code(), SK_ERR_PEER_LOST) << status.message();
    EXPECT_THAT(status.message(), HasSubstr("rank " + std::to_string(victim) + " is gone"));
  });
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(TcpDeath, OfTheLastRankIsHeardByAll) { expect_death_is_heard(kRanks - 1); }
TEST(TcpDeath, OfARankInTheMiddleIsHeardByAll) { expect_death_is_heard(1); }
TEST(TcpDeath, OfRankZeroIsHeardByAll) { expect_death_is_heard(0); }

}  // namespace
}  // namespace sk
