// The variables of every launcher, as they were seen, and the traps among them.
#include "transport/bootstrap/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/transport/bootstrap/world.h"

namespace sk {
namespace {

using namespace sk::testing_support;
using testing::HasSubstr;

Result<std::optional<Identity>> read(const Variables& variables) {
  return read_identity(env_config(variables, 1).env);
}

Variables merged(Variables a, const Variables& b) {
  for (const auto& [name, value] : b) a[name] = value;
  return a;
}

Variables without(Variables variables, const char* name) {
  variables.erase(name);
  return variables;
}

const Variables kSkRun = {{"RANK", "1"},
                          {"WORLD_SIZE", "4"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "4"},
                          {"TORCHELASTIC_RUN_ID", "4be1a07e6a1b2c3d"},
                          {"TORCHELASTIC_RESTART_COUNT", "0"},
                          {"MASTER_ADDR", "127.0.0.1"},
                          {"MASTER_PORT", "40001"},
                          {"SK_MASTER_PORT", "40002"}};
// Without --rdzv-id; the address is the host's own name.
const Variables kTorchrun = {{"RANK", "1"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "4"},
                             {"GROUP_RANK", "0"},
                             {"TORCHELASTIC_RUN_ID", "none"},
                             {"TORCHELASTIC_RESTART_COUNT", "0"},
                             {"MASTER_ADDR", "vm.example"},
                             {"MASTER_PORT", "29500"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_SIZE", "4"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                            {"OMPI_MCA_ess_base_jobid", "934805505"},
                            {"PMIX_NAMESPACE", "934805505"},
                            {"PMIX_RANK", "1"}};
const Variables kSlurm = {{"SLURM_PROCID", "1"},
                          {"SLURM_NTASKS", "4"},
                          {"SLURM_STEP_NUM_TASKS", "4"},
                          {"SLURM_STEP_NUM_NODES", "1"},
                          {"SLURM_LOCALID", "1"},
                          {"SLURM_JOB_ID", "77"},
                          {"SLURM_STEP_ID", "3"},
                          {"SLURM_LAUNCH_NODE_IPADDR", "192.0.2.9"},
                          {"SLURM_STEP_TASKS_PER_NODE", "4"}};
// As flux-shell sets them (its sources say so; no Flux was here to be asked), PMI's among them.
const Variables kFlux = {{"FLUX_TASK_RANK", "1"},
                         {"FLUX_JOB_SIZE", "4"},
                         {"FLUX_JOB_NNODES", "1"},
                         {"FLUX_TASK_LOCAL_ID", "1"},
                         {"FLUX_JOB_ID", "f2Z9ek3q"},
                         {"FLUX_URI", "local:///tmp/flux-x/local-0"},
                         {"PMI_RANK", "1"},
                         {"PMI_SIZE", "4"},
                         {"PMI_FD", "x"}};
// PMI_PORT takes the place of an inherited socket here.
const Variables kHydra = {{"PMI_RANK", "1"},
                          {"PMI_SIZE", "4"},
                          {"MPI_LOCALRANKID", "1"},
                          {"MPI_LOCALNRANKS", "4"},
                          {"PMI_PORT", "vm:37001"}};

struct Launched {
  const char* name;
  Variables variables;
  const char* local_size;  // The variable that says how many are on this host.
};
const Launched kLaunchers[] = {{"sk run", kSkRun, "LOCAL_WORLD_SIZE"},
                               {"torchrun", kTorchrun, "LOCAL_WORLD_SIZE"},
                               {"Open MPI", kOpenMpi, "OMPI_COMM_WORLD_LOCAL_SIZE"},
                               {"srun", kSlurm, "SLURM_STEP_NUM_NODES"},
                               {"Flux", kFlux, "FLUX_JOB_NNODES"},
                               {"Hydra", kHydra, "MPI_LOCALNRANKS"}};

TEST(Identity, EveryLauncherSaysWhoARankIs) {
  for (const Launched& launched : kLaunchers) {
    SCOPED_TRACE(launched.name);
    const auto identity = read(launched.variables);
    ASSERT_TRUE(identity.ok()) << identity.status().message();
    ASSERT_TRUE(identity.value().has_value());
    EXPECT_EQ((*identity.value()).rank, 1);
    EXPECT_EQ((*identity.value()).world_size, 4);
    EXPECT_EQ((*identity.value()).local_rank, 1);
    EXPECT_TRUE((*identity.value()).can_meet_here());
  }
}

TEST(Identity, NoLauncherIsAWorldOfOne) {
  const auto identity = read({{"PATH", "/bin"}, {"SLURM_CONF", "/etc"}, {"MASTER_PORT", "1"}});
  ASSERT_TRUE(identity.ok());
  EXPECT_FALSE(identity.value().has_value());
}

// A batch script runs once; the tasks that it may start are not started yet.
TEST(Identity, ABatchScriptIsNoRank) {
  const auto identity = read({{"SLURM_PROCID", "0"},
                              {"SLURM_NTASKS", "4"},
                              {"SLURM_LOCALID", "0"},
                              {"SLURM_JOB_ID", "77"},
                              {"SLURM_NNODES", "1"}});
  ASSERT_TRUE(identity.ok());
  EXPECT_FALSE(identity.value().has_value());
}

TEST(Identity, MpirunInABatchScriptCounts) {
  const auto identity = read(
      merged(kOpenMpi, {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "77"}}));
  ASSERT_TRUE(identity.ok()) << identity.status().message();
  EXPECT_EQ((*identity.value()).launcher, "Open MPI");
}

// srun -N 2 --ntasks-per-node=1 starts the daemons of mpirun and mpiexec, whose ranks inherit that.
TEST(Identity, AStepThatCarriesDaemonsIsNotTheJob) {
  for (const Variables& inner : {kOpenMpi, kHydra, kTorchrun}) {
    const auto identity = read(merged(inner, {{"SLURM_PROCID", "0"},
                                              {"SLURM_STEP_NUM_TASKS", "2"},
                                              {"SLURM_STEP_NUM_NODES", "2"},
                                              {"SLURM_JOB_ID", "77"},
                                              {"SLURM_STEP_ID", "0"}}));
    ASSERT_TRUE(identity.ok()) << identity.status().message();
    EXPECT_EQ((*identity.value()).rank, 1);
    EXPECT_EQ((*identity.value()).world_size, 4);
  }
}

TEST(Identity, LaunchersThatAgreeAreOne) {
  for (const Variables& also : {kTorchrun, kOpenMpi, kHydra}) {
    const auto identity = read(merged(kSlurm, also));  // As srun --mpi=pmi2 does.
    ASSERT_TRUE(identity.ok()) << identity.status().message();
    EXPECT_EQ((*identity.value()).rank, 1);
  }
  // A wrapper that sets RANK and WORLD_SIZE from the launcher's own says nothing of the job.
  const auto identity = read(merged(kOpenMpi, {{"RANK", "1"}, {"WORLD_SIZE", "4"}}));
  ASSERT_TRUE(identity.ok()) << identity.status().message();
  EXPECT_EQ((*identity.value()).launcher, "Open MPI");
}

TEST(Identity, LaunchersThatDoNotAgreeAreRefused) {
  struct {
    Variables variables;
    const char* a;
    const char* b;
  } const table[] = {
      {merged(kOpenMpi, {{"RANK", "0"}, {"WORLD_SIZE", "4"}}), "RANK and", "OMPI_COMM_WORLD_RANK"},
      {merged(kHydra, {{"RANK", "1"}, {"WORLD_SIZE", "2"}}), "RANK and", "PMI_RANK"},
      {merged(merged(kSlurm, kHydra), {{"PMI_RANK", "0"}}), "SLURM_PROCID", "PMI_RANK"},
      {merged(merged(kSlurm, kOpenMpi), {{"SLURM_PROCID", "3"}}), "OMPI_COMM_WORLD_RANK",
       "SLURM_PROCID"},
      {merged(kSkRun, {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}), "RANK and", "PMI_RANK"},
  };
  for (const auto& row : table) {
    const auto identity = read(row.variables);
    ASSERT_EQ(identity.status().code(), SK_ERR_INVALID_ARGUMENT);
    EXPECT_THAT(identity.status().message(), HasSubstr(row.a));
    EXPECT_THAT(identity.status().message(), HasSubstr(row.b));
    EXPECT_THAT(identity.status().message(), HasSubstr("SK_BOOTSTRAP"));
  }
}

TEST(Identity, TheUserChooses) {
  const Variables both = merged(kOpenMpi, {{"RANK", "0"}, {"WORLD_SIZE", "2"}});
  const auto mpi = read(merged(both, {{"SK_BOOTSTRAP", "openmpi"}}));
  ASSERT_TRUE(mpi.ok());
  EXPECT_EQ((*mpi.value()).world_size, 4);
  const auto env = read(merged(both, {{"SK_BOOTSTRAP", "env"}}));
  ASSERT_TRUE(env.ok());
  EXPECT_EQ((*env.value()).world_size, 2);
  for (const Launched& launched : kLaunchers) {
    const auto single = read(merged(launched.variables, {{"SK_BOOTSTRAP", "single"}}));
    ASSERT_TRUE(single.ok());
    EXPECT_FALSE(single.value().has_value());
  }
  const auto absent = read(merged(both, {{"SK_BOOTSTRAP", "slurm"}}));
  EXPECT_THAT(absent.status().message(), HasSubstr("SLURM_STEP_NUM_TASKS is not set"));
  const auto unknown = read(merged(both, {{"SK_BOOTSTRAP", "mpi"}}));
  EXPECT_THAT(unknown.status().message(),
              HasSubstr("SK_BOOTSTRAP is \"mpi\": it must be \"single\""));
}

TEST(Identity, BadNumbersAreNamed) {
  struct {
    const char* launcher;
    const char* name;
  } const table[] = {{"sk run", "RANK"},
                     {"torchrun", "WORLD_SIZE"},
                     {"torchrun", "LOCAL_WORLD_SIZE"},
                     {"Open MPI", "OMPI_COMM_WORLD_RANK"},
                     {"Open MPI", "OMPI_COMM_WORLD_SIZE"},
                     {"Open MPI", "OMPI_COMM_WORLD_LOCAL_SIZE"},
                     {"srun", "SLURM_PROCID"},
                     {"srun", "SLURM_STEP_NUM_TASKS"},
                     {"srun", "SLURM_STEP_NUM_NODES"},
                     {"srun", "SLURM_LOCALID"},
                     {"Flux", "FLUX_TASK_RANK"},
                     {"Flux", "FLUX_JOB_SIZE"},
                     {"Flux", "FLUX_JOB_NNODES"},
                     {"Flux", "FLUX_TASK_LOCAL_ID"},
                     {"Hydra", "PMI_RANK"},
                     {"Hydra", "PMI_SIZE"},
                     {"Hydra", "MPI_LOCALNRANKS"}};
  for (const auto& row : table) {
    for (const Launched& launched : kLaunchers) {
      if (std::string(launched.name) != row.launcher) continue;
      for (const char* bad : {"", "-1", "two", "1x", "99999999999"}) {
        const auto identity = read(merged(launched.variables, {{row.name, bad}}));
        ASSERT_EQ(identity.status().code(), SK_ERR_INVALID_ARGUMENT) << row.name << "=" << bad;
        EXPECT_THAT(identity.status().message(), HasSubstr(std::string("variable ") + row.name));
      }
    }
  }
}

TEST(Identity, ARankBeyondTheWorldIsRefused) {
  const char* const ranks[] = {"RANK",         "RANK",           "OMPI_COMM_WORLD_RANK",
                               "SLURM_PROCID", "FLUX_TASK_RANK", "PMI_RANK"};
  for (size_t i = 0; i < std::size(kLaunchers); ++i) {
    const auto identity = read(merged(kLaunchers[i].variables, {{ranks[i], "4"}}));
    ASSERT_EQ(identity.status().code(), SK_ERR_INVALID_ARGUMENT) << kLaunchers[i].name;
    EXPECT_THAT(identity.status().message(), HasSubstr("must be from 0 to 3"));
  }
}

std::string job_of(const Variables& variables) {
  const auto identity = read(variables);
  EXPECT_TRUE(identity.ok()) << identity.status().message();
  return identity.ok() && identity.value() ? (*identity.value()).job : "none";
}

TEST(Identity, StartsOfAJobHaveDifferentNames) {
  struct {
    Variables variables;
    const char* name;
  } const table[] = {{kSkRun, "TORCHELASTIC_RUN_ID"},
                     {kTorchrun, "TORCHELASTIC_RESTART_COUNT"},
                     {kTorchrun, "MASTER_PORT"},  // Two jobs at once, both called "none".
                     {kOpenMpi, "PMIX_NAMESPACE"},
                     {without(kOpenMpi, "PMIX_NAMESPACE"), "OMPI_MCA_ess_base_jobid"},
                     {kSlurm, "SLURM_JOB_ID"},
                     {kSlurm, "SLURM_STEP_ID"},
                     {kSlurm, "SLURM_RESTART_COUNT"},
                     {kFlux, "FLUX_JOB_ID"},
                     {kFlux, "FLUX_URI"},  // Two instances may number their jobs alike.
                     {kHydra, "PMI_PORT"}};
  for (const auto& row : table) {
    EXPECT_NE(job_of(row.variables), job_of(merged(row.variables, {{row.name, "8"}}))) << row.name;
  }
  for (const Launched& launched : kLaunchers) {
    const std::string job = job_of(launched.variables);
    EXPECT_NE(job, job_of(merged(launched.variables, {{"SK_JOB_ID", "mine"}}))) << launched.name;
  }
  // Both inherited one SK_MASTER_PORT, and torchrun gave each a port of its own.
  const Variables own = merged(kTorchrun, {{"SK_MASTER_PORT", "29400"}});
  EXPECT_NE(job_of(own), job_of(merged(own, {{"MASTER_PORT", "29501"}})));
  // PyTorch's port is another one where ranks of a notebook were revived; the job is the same.
  EXPECT_EQ(job_of(kSkRun), job_of(merged(kSkRun, {{"MASTER_PORT", "41111"}})));
}

// What a rank of an earlier start on several hosts is told by.
TEST(Identity, HostsOfAStartShareANameOfIt) {
  struct {
    Variables variables;
    std::vector<const char*> shared;  // By which starts differ.
    std::vector<const char*> own;     // In which hosts of one start differ.
  } const table[] = {
      {kTorchrun, {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}, {"MASTER_PORT"}},
      {kOpenMpi, {"PMIX_NAMESPACE"}, {}},
      {kSlurm, {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"}, {"SLURM_NODEID"}},
      {kFlux, {"FLUX_JOB_ID"}, {"FLUX_URI"}},
      {kHydra, {}, {"PMI_PORT", "PMI_FD"}},
  };
  const auto start_of = [](const Variables& variables) { return (*read(variables).value()).start; };
  for (const auto& row : table) {
    for (const char* name : row.shared) {
      EXPECT_NE(start_of(row.variables), start_of(merged(row.variables, {{name, "8"}}))) << name;
      EXPECT_THAT((*read(row.variables).value()).start_hint, HasSubstr(name));
    }
    for (const char* name : row.own) {
      EXPECT_EQ(start_of(row.variables), start_of(merged(row.variables, {{name, "8"}}))) << name;
    }
  }
}

// srun --mpi=pmi2 sets what Hydra sets, too; that it is a step of one task per node is no sign that
// it carries Hydra's daemons then.
TEST(Identity, SrunsOwnPmiIsNotHydra) {
  const Variables pmi2 = merged(kSlurm, {{"SLURM_STEP_NUM_NODES", "4"},
                                         {"PMI_RANK", "1"},
                                         {"PMI_SIZE", "4"},
                                         {"PMI_FD", "11"},
                                         {"PMI_JOBID", "77.3"}});
  EXPECT_EQ((*read(pmi2).value()).launcher, "srun");
  // Hydra within such a step inherits PMI_JOBID.
  const Variables inside =
      merged(pmi2, {{"SLURM_PROCID", "0"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}});
  EXPECT_EQ((*read(inside).value()).launcher, "Hydra");
}

// Hydra's proxy made both sockets, so all its ranks see the same process at the other end.
TEST(Identity, RanksOfOneHydraProxyShareAName) {
  int a[2], b[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, a), 0);
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, b), 0);
  const Variables hydra = without(kHydra, "PMI_PORT");
  const auto with_fd = [&](const std::string& fd) { return merged(hydra, {{"PMI_FD", fd}}); };
  const std::string job = job_of(with_fd(std::to_string(a[1])));
  EXPECT_THAT(job, HasSubstr("proxy " + std::to_string(getpid()) + "."));
  EXPECT_EQ(job, job_of(with_fd(std::to_string(b[1]))));
  for (const int fd : {a[0], a[1], b[0], b[1]}) close(fd);
  // A wrapper may have closed it.
  for (const std::string& fd : {std::to_string(a[1]), std::string("x"), std::string("1")}) {
    const auto made = make_bootstrap(env_config(with_fd(fd), kLong));
    EXPECT_EQ(made.status().code(), SK_ERR_INVALID_ARGUMENT);
    EXPECT_THAT(made.status().message(), HasSubstr("set SK_JOB_ID"));
  }
}

TEST(Identity, SeveralHostsNeedAnAddress) {
  for (const Launched& launched : kLaunchers) {
    if (launched.variables.contains("MASTER_ADDR")) continue;
    SCOPED_TRACE(launched.name);
    const auto made =
        make_bootstrap(env_config(merged(launched.variables, {{launched.local_size, "2"}}), kLong));
    EXPECT_EQ(made.status().code(), SK_ERR_INVALID_ARGUMENT);
    EXPECT_THAT(made.status().message(), HasSubstr(std::string(launched.local_size) + " is 2"));
    EXPECT_THAT(made.status().message(), HasSubstr("MASTER_ADDR is not set"));
    EXPECT_THAT(made.status().message(), HasSubstr("SK_JOB_SECRET_FILE"));
    const auto untold =
        make_bootstrap(env_config(without(launched.variables, launched.local_size), kLong));
    EXPECT_THAT(untold.status().message(),
                HasSubstr(std::string(launched.local_size) + " is not set"));
  }
}

TEST(Identity, ALauncherThatCannotBeAskedIsNotTakenForNone) {
  for (const char* name :
       {"PMIX_RANK", "MV2_COMM_WORLD_RANK", "PALS_RANKID", "ALPS_APP_PE", "JSM_NAMESPACE_RANK"}) {
    const auto identity = read({{name, "1"}});
    EXPECT_EQ(identity.status().code(), SK_ERR_UNSUPPORTED);
    EXPECT_THAT(identity.status().message(), HasSubstr(name));
    EXPECT_THAT(identity.status().message(), HasSubstr("SK_BOOTSTRAP=single"));
  }
  EXPECT_TRUE(read({{"MV2_COMM_WORLD_RANK", "0"}, {"MV2_COMM_WORLD_SIZE", "1"}}).ok());
}

BootstrapConfig given(const Variables& variables, int rank, int world_size) {
  BootstrapConfig config = env_config(variables, 200 * kMs);
  config.kind = SK_BOOTSTRAP_AUTO;
  config.rank = rank;
  config.world_size = world_size;
  return config;
}

TEST(Identity, NumbersOfTheCallersOwnMakeNoWorldOfOne) {
  for (const auto& [rank, world_size] : {std::pair(1, 4), {0, 4}, {1, 0}, {-1, 1}, {0, -1}}) {
    const auto made = make_bootstrap(given({}, rank, world_size));
    EXPECT_EQ(made.status().code(), SK_ERR_INVALID_ARGUMENT) << rank << " of " << world_size;
    EXPECT_THAT(made.status().message(), HasSubstr("set bootstrap to SK_BOOTSTRAP_THREADS"));
  }
  EXPECT_TRUE(make_bootstrap(given({}, 0, 1)).ok());
  EXPECT_TRUE(make_bootstrap(given({}, 0, 0)).ok());
  for (const Launched& launched : kLaunchers) {
    const auto made = make_bootstrap(given(launched.variables, 2, 4));
    EXPECT_THAT(made.status().message(), HasSubstr("rank is 2 and world_size 4 where the"));
    const auto one = make_bootstrap(given(launched.variables, 0, 1));
    EXPECT_THAT(one.status().message(), HasSubstr("leave both 0"));
    // The same numbers are no contradiction: what fails is that nobody else comes.
    const auto same =
        make_bootstrap(given(merged(launched.variables, {{"SK_JOB_ID", unique_job()}}), 1, 4));
    EXPECT_EQ(same.status().code(), SK_ERR_TIMEOUT) << same.status().message();
    EXPECT_THAT(same.status().message(), HasSubstr("ranks 0, 2-3 did not come"));
  }
}

}  // namespace
}  // namespace sk
