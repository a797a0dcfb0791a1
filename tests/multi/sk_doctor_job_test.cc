// `sk doctor` as the ranks of a job on one host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/multi/sk_doctor_said.h"

namespace {

using namespace sk::doctor_test;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

TEST(SkDoctorJob, AsAJobsRanksItSaysWhoReachesWhom) {
  const Outcome text = shell(SK_PROGRAM " run -n 3 DOCTOR");
  EXPECT_EQ(text.status, 0) << text.text;
  EXPECT_THAT(text.text, HasSubstr("  rank    0    1    2\n     0    .   ok   ok\n"));
  const Said said = json_of(SK_PROGRAM " run -n 5 DOCTOR --json");
  EXPECT_EQ(said.status, 0);
  EXPECT_EQ(said.json["world_size"], 5);
  EXPECT_EQ(said.json["pairs"].size(), 10u);
  EXPECT_EQ(said.json["all_reached"], true);
  const Said many = json_of(SK_PROGRAM " run -n 17 DOCTOR --json");
  EXPECT_EQ(many.status, 0);
  EXPECT_EQ(many.json["pairs"].size(), 0u);  // None that failed.
}

TEST(SkDoctorJob, RanksThatDifferAreNamed) {
  const Said said = json_of(SK_PROGRAM
                            " run -n 3 sh -c 'test $RANK = 1 && export SK_CPU_ISA=portable "
                            "SK_LOG=error; exec DOCTOR --json'");
  EXPECT_EQ(said.status, 0) << said.json.dump(1);
  EXPECT_THAT(found(said.json, "differs.SK_LOG"),
              Contains(AllOf(HasSubstr("limit: "), HasSubstr("error: rank 1"))));
  const auto isa = found(said.json, "differs.isa");
  if (!isa.empty()) {  // A machine that has more than portable.
    EXPECT_THAT(isa, Contains(HasSubstr("portable: rank 1")));
  }
}

TEST(SkDoctorJob, ARankThatDoesNotComeOrHasStoppedIsNamed) {
  for (const char* does : {"exec sleep 60", "kill -STOP $$"}) {
    const Outcome outcome = shell(std::string(SK_PROGRAM " run -n 3 sh -c 'test $RANK = 1 && ") +
                                  does + "; exec DOCTOR --timeout 3' 2>/dev/null");
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.text, AllOf(HasSubstr("fault  meeting"), HasSubstr("rank 1")));
  }
}

// Not even another program's, which may be a key: also not where its name is nearly one of libsk's.
TEST(SkDoctorJob, NoValueOfAVariableThatLibskDoesNotReadLeavesARank) {
  const std::string job =
      "SK_JOBSECRET=hunter2hunter2hunter2 SK_API_KEY=sk-live-abcdef "
      "SK_JOB_SECRET_FILE=/nowhere " SK_PROGRAM
      " run -n 2 sh -c 'unset SK_JOB_SECRET_FILE; test $RANK = 1 && export "
      "SK_JOBSECRET=other-secret SK_API_KEY=other-key; exec DOCTOR ";
  for (const char* option : {"'", "--json'"}) {
    const Outcome outcome = shell(job + option + " 2>&1");
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    for (const char* value : {"hunter2", "sk-live", "other-secret", "other-key"})
      EXPECT_THAT(outcome.text, Not(HasSubstr(value)));
    EXPECT_THAT(outcome.text, HasSubstr("SK_JOBSECRET is set, which libsk does not read"));
  }
  for (const char* text : {"hunter2hunter2hunter2", "7:hunter2hunter2"}) {
    const Outcome outcome = shell(
        "env SK_BOOTSTRAP=env RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 "
        "MASTER_PORT=1 SK_JOB_SECRET_FD=" +
        std::string(text) + " DOCTOR 2>&1");
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.text, AllOf(HasSubstr("SK_JOB_SECRET_FD is "), Not(HasSubstr("hunter2"))));
  }
}

// On one host ranks ask for no descriptor, for of two that inherited it one may have lost it.
TEST(SkDoctorJob, AWrapperThatClosesDescriptorsIsNoFault) {
  const Said said = json_of(SK_PROGRAM
                            " run -n 2 python3 -c 'import subprocess, sys; "
                            "sys.exit(subprocess.run(sys.argv[1:]).returncode)' DOCTOR --json");
  EXPECT_EQ(said.status, 0) << said.json.dump(1);
  EXPECT_EQ(said.json["all_reached"], true);
}

// What only ranks of several hosts or notebooks read is in no rank's way here.
TEST(SkDoctorJob, AValueWithoutSenseThatNobodyReadsIsALimit) {
  const Said said =
      json_of(SK_PROGRAM " run -n 2 env SK_NET_TLS=yes SK_LEASE_S=junk DOCTOR --json");
  EXPECT_EQ(said.status, 0) << said.json.dump(1);
  for (const char* line : {"limit: ranks 0-1 ", "SK_NET_TLS is \"yes\"", "SK_LEASE_S is \"junk\""})
    EXPECT_THAT(found(said.json, "environment"), Contains(HasSubstr(line)));
}

TEST(SkDoctorJob, DescriptorsAreJudgedByTheJobsSize) {
  const Said said = json_of("(ulimit -n 44; " SK_PROGRAM " run -n 20 DOCTOR --json)");
  EXPECT_THAT(found(said.json, "descriptors"),
              Contains(AllOf(HasSubstr("limit: "),
                             HasSubstr("while 20 ranks connect, 20 of them "
                                       "here, one may need 56, and 76 with this meeting"))));
  const Said fine = json_of("(ulimit -n 80; " SK_PROGRAM " run -n 20 DOCTOR --json)");
  EXPECT_EQ(fine.status, 0) << fine.json.dump(1);
  EXPECT_TRUE(found(fine.json, "descriptors").empty());
}

}  // namespace
