// `sk doctor` from outside: a machine that is well, and one fault after the other planted.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "tests/multi/sk_doctor_said.h"
#include "tools/sk_doctor/rounds.h"

namespace {

using namespace sk::doctor_test;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

TEST(SkDoctor, AWellMachineHasNoFault) {
  const Said said = json_of(std::string(kBare) + "DOCTOR --json");
  EXPECT_EQ(said.status, 0) << said.json.dump(1);
  EXPECT_EQ(said.json["ok"], true);
  EXPECT_EQ(said.json["doctor"], 1);
  for (const char* id : {"library", "shared-memory", "pidfd", "tls"})
    EXPECT_THAT(found(said.json, id), Contains(testing::StartsWith("ok: "))) << id;
  for (const char* id : {"live.shm", "live.tcp", "live.tls"}) {
    EXPECT_THAT(found(said.json, id),
                testing::ElementsAre(AllOf(testing::StartsWith("ok: "), HasSubstr(" GB/s"))));
  }
  for (const char* id : {"isa", "cpus", "memory", "descriptors", "processes", "network", "gpu",
                         "notebooks", "environment", "live.start"})
    EXPECT_FALSE(found(said.json, id).empty()) << id;
  for (const Json& each : said.json["findings"]) {
    const bool judged = each["state"] == "limit" || each["state"] == "fault";
    EXPECT_EQ(judged, !each["advice"].get<std::string>().empty()) << each;
  }
}

TEST(SkDoctor, AsTextItIsALineEachAndTheSumOfThem) {
  const Outcome outcome = shell(std::string(kBare) + "SK_CPU_ISA=nonsense DOCTOR");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.text, HasSubstr("fault  isa             a world of one is refused: "));
  EXPECT_THAT(outcome.text,
              HasSubstr("\n                       -> set right what the sentence names"));
  EXPECT_THAT(outcome.text, testing::ContainsRegex("\n[1-9][0-9]* faults?, [0-9]+ limits?\\.\n$"));
}

TEST(SkDoctor, APlantedFaultIsFound) {
  struct {
    const char* before;
    const char* id;
    const char* line;
  } const table[] = {
      {"ulimit -n 19;", "descriptors", "fault: 19 (ulimit -n), 19 at most, enough for 1 ranks"},
      {"ulimit -f 1000;", "memory", "(ulimit -f), and shared memory is one"},
      {"SK_NET=nothere0", "network", "fault: SK_NET is \"nothere0\": \"nothere0\" is neither an"},
      {"SK_NET=192.0.2.77/32", "network", "fault: SK_NET is \"192.0.2.77/32\": this host has no"},
      {"SK_PORT_RANGE=9-1", "ports", "fault: SK_PORT_RANGE is \"9-1\": it must be LOW-HIGH"},
      {"SK_LIBRARY=/nonexistent.so", "library", "fault: SK_LIBRARY is \"/nonexistent.so\": "},
      {"SK_CPU_ISA=nonsense", "isa", "fault: a world of one is refused: SK_CPU_ISA: \"nonsense\""},
      {"SK_WORKERS=0", "isa", "fault: a world of one is refused: "},
      {"SK_BOOTSTRAP=nobody", "job", "fault: "},
  };
  for (const auto& row : table) {
    const Said said =
        json_of(std::string("export ") + kBare + "; " + row.before + " DOCTOR --json --timeout 5");
    EXPECT_EQ(said.status, 1) << row.before;
    EXPECT_THAT(found(said.json, row.id), Contains(HasSubstr(row.line))) << row.before;
  }
}

TEST(SkDoctor, WhatIsLessThanItCouldBeIsALimitAndNoFault) {
  const Said slow = json_of(std::string(kBare) + "SK_NETT=eth0 DOCTOR --json");
  EXPECT_EQ(slow.status, 0) << slow.json.dump(1);
  EXPECT_THAT(found(slow.json, "environment"),
              Contains(AllOf(HasSubstr("limit: SK_NETT is set"), HasSubstr("is SK_NET meant?"))));
  const Said pinned = json_of("taskset -c 0 env " + std::string(kBare) + "DOCTOR --json");
  if (sysconf(_SC_NPROCESSORS_ONLN) > 1) {
    EXPECT_THAT(found(pinned.json, "cpus"), Contains(HasSubstr("limit: 1 of ")));
  }
}

TEST(SkDoctor, PortsThatAnotherHasAreFound) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t bytes = sizeof(address);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), bytes), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes), 0);
  const std::string port = std::to_string(ntohs(address.sin_port));
  const Said said = json_of(std::string(kBare) + "SK_NET=127.0.0.1 SK_PORT_RANGE=" + port + "-" +
                            port + " DOCTOR --json --timeout 3");
  EXPECT_EQ(said.status, 1);
  EXPECT_THAT(found(said.json, "ports"),
              Contains(AllOf(HasSubstr("fault: no port of SK_PORT_RANGE=" + port),
                             HasSubstr("ss -tlnp shows who has them"))));
  close(fd);
}

TEST(SkDoctor, AKernelWhoseProgramIsGoneIsFound) {
  char folder[] = "/tmp/sk_doctor_test_XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string spec = std::string(folder) + "/kernels/broken";
  std::filesystem::create_directories(spec);
  std::ofstream(spec + "/kernel.json")
      << R"({"argv": ["/gone/sk", "kernel", "--ranks", "3", "--", "python3"]})";
  const Said said =
      json_of("JUPYTER_PATH= JUPYTER_DATA_DIR=" + std::string(folder) + " DOCTOR --json");
  EXPECT_EQ(said.status, 1);
  EXPECT_THAT(found(said.json, "notebooks"),
              Contains(AllOf(HasSubstr("fault: kernel broken (3 ranks)"), HasSubstr("/gone/sk"),
                             HasSubstr("sk remove broken"))));
  std::filesystem::remove_all(folder);
}

TEST(SkDoctor, AValueWithoutSenseIsAFault) {
  struct {
    const char* setting;
    const char* line;
  } const table[] = {
      {"SK_NET_TLS=yes", "fault: SK_NET_TLS is \"yes\": it must be 0 or 1"},
      {"SK_GPU_PAIRS=junk", "fault: SK_GPU_PAIRS is \"junk\": it must be 0 or 1"},
      {"SK_TEMPLATE=junk", "fault: SK_TEMPLATE is \"junk\": it must be 0 or 1"},
      {"SK_LISTEN=junk", "SK_LISTEN is \"junk\": it must be \"master\""},
      {"SK_MASTER_PORT=x", "SK_MASTER_PORT is \"x\""},
      {"SK_NRANKS=junk", "fault: SK_NRANKS"},
      {"SK_PRELOAD=1,2", "fault: SK_PRELOAD"},
      {"SK_PRELOAD_LIMIT_S=junk", "fault: SK_PRELOAD_LIMIT_S is \"junk\""},
      {"SK_LEASE_S=junk", "fault: SK_LEASE_S is \"junk\""},
      {"SK_JOB_SECRET_FD=77", "SK_JOB_SECRET_FD is \"77\": it must be NUMBER:DEVICE:INODE"},
      {"SK_JOB_SECRET=short", "fault: the job secret of SK_JOB_SECRET has 5 bytes"},
      {"SK_PROGRAM=/nonexistent", "fault: SK_PROGRAM is \"/nonexistent\""},
      {"SK_WORKER_FD=9", "fault: a variable that notebooks set"},
      {"TMPDIR=/nonexistent", "fault: TMPDIR is \"/nonexistent\""},
  };
  // All at once: each is told whatever the others are.
  std::string all = kBare;
  for (const auto& row : table) all += std::string(row.setting) + " ";
  const Said said = json_of("env " + all + "DOCTOR --json --timeout 5");
  EXPECT_EQ(said.status, 1);
  for (const auto& row : table)
    EXPECT_THAT(found(said.json, "environment"), Contains(HasSubstr(row.line))) << row.setting;
  const Said fine = json_of("env " + std::string(kBare) +
                            "SK_NET_TLS=0 SK_GPU_PAIRS=0 SK_TEMPLATE=0 SK_LISTEN=any "
                            "SK_MASTER_PORT=9 SK_NRANKS=2 SK_PRELOAD=numpy SK_PRELOAD_LIMIT_S=1.5 "
                            "SK_LEASE_S=0 SK_PROGRAM=true TMPDIR=/tmp DOCTOR --json");
  EXPECT_EQ(fine.status, 0) << fine.json.dump(1);
}

TEST(SkDoctor, ALoopbackThatIsDownIsALineOfItsOwn) {
  if (geteuid() != 0) GTEST_SKIP() << "a network of one's own takes root";
  const Said said = json_of("unshare -n env " + std::string(kBare) + "DOCTOR --json");
  EXPECT_EQ(said.status, 0) << said.json.dump(1);
  EXPECT_THAT(found(said.json, "network"),
              Contains(AllOf(HasSubstr("limit: the loopback"), HasSubstr("ip link set lo up"))));
  EXPECT_THAT(found(said.json, "tls"), Contains(testing::StartsWith("ok: ")));
  EXPECT_THAT(found(said.json, "live.shm"), Contains(testing::StartsWith("ok: ")));
  for (const char* id : {"live.tcp", "live.tls"})
    EXPECT_THAT(found(said.json, id), Contains(HasSubstr("not tried, for the loopback is down")));
}

TEST(SkDoctor, ALimitIsNotTakenForASandbox) {
  struct {
    const char* before;
    const char* id;
    const char* advice;
  } const table[] = {{"ulimit -n 6;", "shared-memory", "ulimit -n 65536"},
                     {"ulimit -n 6;", "library", "raise the limit that the sentence names"},
                     {"ulimit -f 0;", "shared-memory", "ulimit -f unlimited"}};
  for (const auto& row : table) {
    const Said said =
        json_of(std::string("export ") + kBare + "; " + row.before + " DOCTOR --json --timeout 3");
    EXPECT_THAT(found(said.json, row.id),
                Contains(AllOf(HasSubstr("fault: "), HasSubstr(row.advice),
                               testing::Not(HasSubstr("seccomp profile")))))
        << row.before;
  }
}

TEST(SkDoctor, TheUsersOwnLimitOfProcessesIsJudged) {
  if (geteuid() != 0) GTEST_SKIP() << "another user takes root";
  const std::string other = "prlimit --nproc=4 setpriv --reuid 12345 --clear-groups env ";
  const Said said = json_of(other + kBare + "DOCTOR --json --timeout 3");
  EXPECT_EQ(said.status, 1);
  EXPECT_THAT(found(said.json, "processes"),
              Contains(AllOf(HasSubstr("fault: "), HasSubstr("4 for this user (ulimit -u, "),
                             HasSubstr("let this user have"))));
}

TEST(SkDoctor, AShortNameIsNobodysMistake) {
  const Said said = json_of(std::string(kBare) + "SK_A=1 SK_GPU=2 DOCTOR --json");
  EXPECT_THAT(found(said.json, "environment"),
              testing::Not(Contains(HasSubstr("is SK_NET meant?"))));
}

TEST(SkDoctor, WhatATerminalWouldObeyIsNotPrinted) {
  const Outcome outcome =
      shell(std::string(kBare) + "SK_JOB_ID=\"$(printf 'a\\302\\2332J\\033[2Jb')\" DOCTOR");
  EXPECT_THAT(outcome.text, HasSubstr("SK_JOB_ID=a 2J [2Jb"));
  EXPECT_EQ(outcome.text.find("\xc2\x9b"), std::string::npos);
  EXPECT_EQ(outcome.text.find('\033'), std::string::npos);
}

TEST(SkDoctor, MistakesGetASentence) {
  struct {
    const char* arguments;
    const char* sentence;
  } const table[] = {
      {"--what", "\"--what\" is no option"},
      {"here", "\"here\" is no option"},
      {"--timeout", "--timeout needs a value"},
      {"--timeout 0", "--timeout is \"0\": it must be a number of seconds from 1 to 3600"},
      {"--timeout nan", "--timeout is \"nan\""},
      {"--timeout 5x", "--timeout is \"5x\""},
  };
  for (const auto& row : table) {
    const Outcome outcome = shell(std::string("DOCTOR ") + row.arguments + " 2>&1");
    EXPECT_EQ(outcome.status, 2) << row.arguments;
    EXPECT_THAT(outcome.text, HasSubstr(row.sentence));
  }
  const Outcome help = shell("DOCTOR --json --help");
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.text, HasSubstr("usage: sk doctor"));
}

TEST(Rounds, EveryPairMeetsOnceAndNobodyIsInTwo) {
  for (int n = 2; n <= 40; ++n) {
    std::set<std::pair<int, int>> met;
    for (int round = 0; round < sk::doctor::round_count(n); ++round) {
      for (int rank = 0; rank < n; ++rank) {
        const int peer = sk::doctor::partner_in(round, rank, n);
        if (peer < 0) continue;
        ASSERT_NE(peer, rank);
        ASSERT_EQ(sk::doctor::partner_in(round, peer, n), rank);
        if (rank < peer) {
          ASSERT_TRUE(met.insert({rank, peer}).second);
        }
      }
    }
    EXPECT_EQ(met.size(), size_t(n * (n - 1) / 2));
  }
}

}  // namespace
