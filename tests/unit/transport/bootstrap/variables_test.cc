// What launchers and callers may get wrong: each gets a sentence that names the variable or the
// argument, what it was and what is allowed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/unit/transport/bootstrap/world.h"
#include "transport/bootstrap/kinds.h"

namespace sk {
namespace {

using namespace sk::testing_support;
using testing::HasSubstr;

struct BadVariable {
  const char* name;
  const char* value;  // Null: not set.
};

TEST(BootstrapVariables, BadOnesAreNamed) {
  const BadVariable table[] = {
      {"RANK", nullptr},        {"RANK", ""},
      {"RANK", "-1"},           {"RANK", "2"},
      {"RANK", "1x"},           {"RANK", " 1"},
      {"RANK", "99999999999"},  {"WORLD_SIZE", nullptr},
      {"WORLD_SIZE", "0"},      {"WORLD_SIZE", "two"},
      {"WORLD_SIZE", "4097"},   {"RANK", "4096"},
      {"LOCAL_RANK", "4096"},   {"LOCAL_WORLD_SIZE", "4097"},
      {"MASTER_ADDR", nullptr}, {"MASTER_ADDR", ""},
      {"MASTER_PORT", nullptr}, {"MASTER_PORT", "0"},
      {"MASTER_PORT", "65536"}, {"MASTER_PORT", "29500 "},
      {"SK_MASTER_PORT", "no"}, {"SK_LISTEN", "all"},
  };
  for (const BadVariable& bad : table) {
    SCOPED_TRACE(testing::Message() << bad.name << "=" << (bad.value ? bad.value : "(not set)"));
    Variables variables = job_variables(1, 2, 29500);
    if (bad.value != nullptr) {
      variables[bad.name] = bad.value;
    } else {
      variables.erase(bad.name);
    }
    const auto made = make_bootstrap(env_config(variables, kLong));
    ASSERT_EQ(made.status().code(), SK_ERR_INVALID_ARGUMENT) << made.status().message();
    EXPECT_THAT(made.status().message(), HasSubstr(std::string("variable ") + bad.name));
    EXPECT_THAT(made.status().message(), HasSubstr("must be"));
    if (bad.value != nullptr) {
      EXPECT_THAT(made.status().message(), HasSubstr(bad.value));
    }
  }
}

TEST(BootstrapVariables, HalfALauncherIsNoWorldOfOne) {
  BootstrapConfig config = env_config({{"RANK", "0"}}, kLong);
  config.kind = SK_BOOTSTRAP_AUTO;
  const auto made = make_bootstrap(config);
  EXPECT_EQ(made.status().code(), SK_ERR_INVALID_ARGUMENT);
  EXPECT_THAT(made.status().message(), HasSubstr("WORLD_SIZE is not set"));
}

TEST(BootstrapVariables, TheLibrarysOwnPortComesFirst) {
  const HeldPort own, other;
  const int listener = other.listen();  // As torchrun's agent has MASTER_PORT for itself.
  on_ranks(2, [&](int rank) {
    Variables variables = job_variables(rank, 2, other.number());
    variables["SK_MASTER_PORT"] = std::to_string(own.number());
    auto made = make_bootstrap(env_config(variables, kLong));
    ASSERT_TRUE(made.ok()) << made.status().message();
  });
  close(listener);
}

// All ranks are told, the others not after having waited in vain for rank 0.
TEST(BootstrapVariables, ThePortOfTorchrunsAgentIsTakenByNobody) {
  for (const int rank : {0, 1}) {
    Variables variables = job_variables(rank, 2, 29500);
    variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
    const auto made = make_bootstrap(env_config(variables, kLong));
    EXPECT_EQ(made.status().code(), SK_ERR_INVALID_ARGUMENT);
    EXPECT_THAT(made.status().message(), HasSubstr("SK_MASTER_PORT is not set: it must be"));
    EXPECT_THAT(made.status().message(), HasSubstr("other than MASTER_PORT 29500"));
  }
}

TEST(BootstrapVariables, MpirunsWayToHandVariablesOnIsSaid) {
  Variables variables = {{"OMPI_COMM_WORLD_RANK", "1"},
                         {"OMPI_COMM_WORLD_SIZE", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}};
  const auto no_address = make_bootstrap(env_config(variables, kLong));
  EXPECT_THAT(no_address.status().message(), HasSubstr("on every rank (mpirun hands on what -x"));
  variables["MASTER_ADDR"] = "127.0.0.1";
  variables["MASTER_PORT"] = "29500";
  const auto no_secret = make_bootstrap(env_config(variables, kLong));
  EXPECT_EQ(no_secret.status().code(), SK_ERR_TRUST);
  EXPECT_THAT(no_secret.status().message(), HasSubstr("on every rank (mpirun hands on what -x"));
}

TEST(BootstrapArguments, BadOnesAreNamed) {
  const auto sentence = [](const BootstrapConfig& config) {
    const auto made = make_bootstrap(config);
    EXPECT_EQ(made.status().code(), SK_ERR_INVALID_ARGUMENT);
    return made.status().message();
  };
  BootstrapConfig callback;
  callback.kind = SK_BOOTSTRAP_CALLBACK;
  callback.world_size = 1;
  EXPECT_THAT(sentence(callback), HasSubstr("allgather is NULL"));
  EXPECT_THAT(sentence(threads_config(0, 0, "", kLong)), HasSubstr("world_size is 0"));
  EXPECT_THAT(sentence(threads_config(2, 2, "", kLong)), HasSubstr("rank is 2"));
  EXPECT_THAT(sentence(threads_config(-1, 2, "", kLong)), HasSubstr("rank is -1"));
  EXPECT_THAT(sentence(threads_config(0, 2, "", 0)), HasSubstr("timeout is 0"));
  BootstrapConfig unknown;
  unknown.kind = 9;
  EXPECT_THAT(sentence(unknown), HasSubstr("bootstrap is 9"));
}

TEST(BootstrapArguments, RankListsAreReadable) {
  const auto list = [](const std::vector<bool>& flags) { return rank_list(flags); };
  EXPECT_EQ(list({false, true}), "rank 1");
  EXPECT_EQ(list({true, true}), "ranks 0-1");
  EXPECT_EQ(list({true, false, true, true, true, false, true}), "ranks 0, 2-4, 6");
  EXPECT_EQ(list({false, false}), "no rank");
}

}  // namespace
}  // namespace sk
