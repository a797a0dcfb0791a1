// Ranks started by others than sk run: they meet with nothing but what their launcher tells them.
//
// mpirun and mpiexec are real where they are installed. torchrun, srun and Flux are played by a
// shell that sets the variables which they set; tests/launchers has the real ones, but for Flux.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "tests/support/shell.h"

namespace {

using testing::HasSubstr;
using testing::Not;

using Ended = sk::testing_support::Outcome;

// With what it printed to stderr, too.
Ended run(const std::string& command) {
  return sk::testing_support::shell("exec 2>&1; " + command);
}

std::set<std::string> lines_of(const std::string& text) {
  std::set<std::string> out;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) out.insert(line);
  return out;
}

// "0/3 on 0/3: 012" and so on.
std::set<std::string> world(int size) {
  std::string all;
  for (int r = 0; r < size; ++r) all += std::to_string(r);
  std::set<std::string> out;
  for (const char r : all) {
    const std::string number = std::string(1, r) + "/" + std::to_string(size);
    out.insert(number + " on " + number + ": " + all);
  }
  return out;
}

struct Launcher {
  const char* name;
  const char* program;  // Null: always there.
  std::string (*command)(int ranks, const std::string& rank_command);
};

std::string openmpi(int ranks, const std::string& command) {
  return "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 120 mpirun.openmpi "
         "--oversubscribe -n " +
         std::to_string(ranks) + " " + command;
}

std::string hydra(int ranks, const std::string& command) {
  return "timeout 120 mpiexec.hydra -n " + std::to_string(ranks) + " " + command;
}

// Each rank by a shell with variables of its own, $r being its number.
std::string by_shell(int ranks, const std::string& variables, const std::string& command) {
  return "for r in $(seq 0 " + std::to_string(ranks - 1) + "); do " + variables + " timeout 120 " +
         command +
         " & p=\"$p $!\"; done; s=0; for i in $p; do wait $i || s=$?; "
         "done; (exit $s)";
}

std::string unique() { return std::to_string(std::random_device{}()); }

// Without --rdzv-id all jobs are called "none", and the port is the agent's.
std::string torchrun(int ranks, const std::string& command) {
  const std::string n = std::to_string(ranks);
  return by_shell(ranks,
                  "RANK=$r LOCAL_RANK=$r WORLD_SIZE=" + n + " LOCAL_WORLD_SIZE=" + n +
                      " GROUP_RANK=0 TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=0 "
                      "MASTER_ADDR=$(hostname) MASTER_PORT=" +
                      unique(),
                  command);
}

std::string srun(int ranks, const std::string& command) {
  const std::string n = std::to_string(ranks);
  return by_shell(ranks,
                  "SLURM_PROCID=$r SLURM_LOCALID=$r SLURM_NTASKS=" + n + " SLURM_STEP_NUM_TASKS=" +
                      n + " SLURM_STEP_NUM_NODES=1 SLURM_STEP_ID=0 SLURM_JOB_ID=" + unique() +
                      " SLURM_LAUNCH_NODE_IPADDR=192.0.2.1",
                  command);
}

// With what its shell speaks of PMI.
std::string flux(int ranks, const std::string& command) {
  const std::string n = std::to_string(ranks);
  return by_shell(ranks,
                  "FLUX_TASK_RANK=$r FLUX_TASK_LOCAL_ID=$r FLUX_JOB_NNODES=1 FLUX_JOB_SIZE=" + n +
                      " FLUX_URI=local:///run/flux/local FLUX_JOB_ID=f" + unique() +
                      " PMI_RANK=$r PMI_FD=99 PMI_SIZE=" + n,
                  command);
}

class Launchers : public testing::TestWithParam<Launcher> {
 protected:
  void SetUp() override {
    const char* const program = GetParam().program;
    if (program != nullptr && run(std::string("command -v ") + program).status != 0) {
      GTEST_SKIP() << program << " is not installed (./dev test --suite launchers installs it)";
    }
  }
  static std::string launched(int ranks, const std::string& command) {
    return GetParam().command(ranks, command);
  }
};

TEST_P(Launchers, RanksMeet) {
  for (const int ranks : {1, 2, 5}) {
    const Ended job = run(launched(ranks, SK_RANK_PROBE " 5"));
    EXPECT_EQ(job.status, 0) << job.text;
    EXPECT_EQ(lines_of(job.text), world(ranks));
  }
}

TEST_P(Launchers, RanksMeetThroughWrappers) {
  const Ended job = run(launched(3, "sh -c 'nice " SK_RANK_PROBE " 2; exit $?'"));
  EXPECT_EQ(job.status, 0) << job.text;
  EXPECT_EQ(lines_of(job.text), world(3));
}

// Both jobs run the same ranks of the same user at the same time.
TEST_P(Launchers, JobsAtTheSameTimeDoNotMix) {
  Ended first{}, second{};
  std::thread other([&] { first = run(launched(3, SK_RANK_PROBE " 20")); });
  second = run(launched(2, SK_RANK_PROBE " 20"));
  other.join();
  EXPECT_EQ(lines_of(first.text), world(3));
  EXPECT_EQ(lines_of(second.text), world(2));
}

// The same ranks, once more: what is left of the first start must not be in the way.
TEST_P(Launchers, AJobAfterTheOtherInOneScriptMeets) {
  const Ended job = run(launched(2, "sh -c '" SK_RANK_PROBE " && " SK_RANK_PROBE " 3'"));
  EXPECT_EQ(job.status, 0) << job.text;
  EXPECT_EQ(lines_of(job.text), world(2));
}

TEST_P(Launchers, WhatARankStartsIsNoRank) {
  const Ended job = run(launched(2, SK_RANK_PROBE " 1 " SK_RANK_PROBE));
  EXPECT_NE(job.status, 0);
  EXPECT_THAT(job.text, HasSubstr("from which this one descends, is rank 1"));
  const Ended single = run(launched(2, SK_RANK_PROBE " 1 'SK_BOOTSTRAP=single " SK_RANK_PROBE "'"));
  EXPECT_EQ(single.status, 0) << single.text;
  std::set<std::string> expected = world(2);
  expected.merge(world(1));
  EXPECT_EQ(lines_of(single.text), expected);
}

TEST_P(Launchers, ARankMayStartAJobOfItsOwn) {
  const Ended job =
      run(launched(2, SK_RANK_PROBE " 1 '" SK_PROGRAM " run -n 3 " SK_RANK_PROBE "'"));
  EXPECT_EQ(job.status, 0) << job.text;
  std::set<std::string> expected = world(2);
  expected.merge(world(3));
  EXPECT_EQ(lines_of(job.text), expected);
}

TEST_P(Launchers, AnotherLaunchersVariablesAreRefusedUntilOneIsChosen) {
  const std::string both = "sh -c 'RANK=0 WORLD_SIZE=7 PMI_RANK=4 PMI_SIZE=9 " SK_RANK_PROBE "'";
  const Ended job = run(launched(2, both));
  EXPECT_NE(job.status, 0);
  EXPECT_THAT(job.text, HasSubstr("two launchers"));
  EXPECT_THAT(job.text, HasSubstr("set SK_BOOTSTRAP to"));
}

const Launcher kLaunchers[] = {{"OpenMpi", "mpirun.openmpi", openmpi},
                               {"Hydra", "mpiexec.hydra", hydra},
                               {"Torchrun", nullptr, torchrun},
                               {"Srun", nullptr, srun},
                               {"Flux", nullptr, flux}};
INSTANTIATE_TEST_SUITE_P(All, Launchers, testing::ValuesIn(kLaunchers),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(LaunchersOfSeveralHosts, AreToldWhatToSet) {
  const Ended job = run(srun(2, "env SLURM_STEP_NUM_NODES=2 " SK_RANK_PROBE));
  EXPECT_NE(job.status, 0);
  EXPECT_THAT(job.text, HasSubstr("srun started 2 ranks and SLURM_STEP_NUM_NODES is 2"));
  EXPECT_THAT(job.text, HasSubstr("MASTER_ADDR is not set"));
  EXPECT_THAT(job.text, Not(HasSubstr("0/1")));
}

// torchrun restarts all ranks of a job when one fails; stragglers of before must not join.
TEST(LaunchersThatRestart, MakeANewJobOfIt) {
  const std::string port = unique();
  const std::string common = "WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 TORCHELASTIC_RUN_ID=r" + unique() +
                             " MASTER_ADDR=localhost MASTER_PORT=" + port + " ";
  const Ended job =
      run(common + "RANK=1 TORCHELASTIC_RESTART_COUNT=0 " SK_RANK_PROBE " >/dev/null 2>&1 & " +
          by_shell(2, common + "RANK=$r TORCHELASTIC_RESTART_COUNT=1", SK_RANK_PROBE " 3") +
          "; kill %1 2>/dev/null || true");
  EXPECT_EQ(lines_of(job.text), world(2));
}

}  // namespace
