// Ranks forked from a template, with a real controller and stub ranks: such a rank is like one that
// was started by itself, its end is the controller's to see, and a template that fails, hangs or
// dies is never passed over.
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "sk/exec.h"
#include "sk/worker.h"

namespace {

constexpr int64_t kWaitMs = 60'000;

// ThreadSanitizer has threads of its own, in a forked process more than in one that was started.
#if defined(__SANITIZE_THREAD__)
constexpr const char* kStatus = "grep -e SigIgn -e SigCgt -e Name /proc/$PPID/status";
constexpr const char* kThreads = " threads";
#else
constexpr const char* kStatus = "grep -e Threads -e SigIgn -e SigCgt -e Name /proc/$PPID/status";
constexpr const char* kThreads = "2 threads";
#endif

// The rank leads its process group and its session.
constexpr const char* kLeads =
    "p=$PPID; set -- $(cut -d')' -f2 /proc/$p/stat); test $3 = $p && test $4 = $p && echo ok";

struct Outcome {
  std::string text;
  std::string error;
  int32_t status = 0;
};

class Session {
 public:
  Session(int32_t ranks, uint32_t flags, std::vector<const char*> env = {},
          const char* cwd = nullptr, int64_t start_timeout_ms = 0,
          const char* program = SK_STUB_RANK) {
    const char* argv[] = {program, nullptr};
    env.push_back(nullptr);
    sk_session_config config = {};
    config.struct_size = sizeof config;
    config.ranks = ranks;
    config.argv = argv;
    config.env = env.data();
    config.cwd = cwd;
    config.sk_path = SK_TOOL;
    config.flags = flags;
    config.start_timeout_ms = start_timeout_ms;
    EXPECT_EQ(sk_session_open(&config, &handle_), SK_OK) << sk_last_error();
  }
  ~Session() { EXPECT_EQ(sk_session_close(handle_), SK_OK) << sk_last_error(); }

  Outcome run(const std::string& code, const char* ranks = nullptr) {
    uint64_t cell = 0;
    Outcome outcome;
    EXPECT_EQ(sk_exec(handle_, ranks, code.data(), code.size(), nullptr, &cell), SK_OK)
        << sk_last_error();
    while (outcome.status == 0) {
      sk_event event = {};
      event.struct_size = sizeof event;
      if (sk_session_poll(handle_, kWaitMs, &event) != SK_OK || event.kind == SK_EVENT_NONE) {
        ADD_FAILURE() << "the cell has no end: " << sk_last_error();
        return outcome;
      }
      if (event.kind == SK_EVENT_NOTE)
        notes_.push_back(event.tag + (": " + std::string(event.text)));
      if (event.cell != cell) continue;
      if (event.kind == SK_EVENT_STREAM) outcome.text.append(event.text, event.text_bytes);
      if (event.kind == SK_EVENT_DISPLAY && event.display == SK_DISPLAY_CLEAR_WAIT)
        outcome.text.clear();
      if (event.kind == SK_EVENT_ERROR) outcome.error = event.evalue;
      if (event.kind == SK_EVENT_CELL_DONE) outcome.status = event.status;
    }
    return outcome;
  }
  // Returns once the cell, which does not end, has printed something.
  void begin(const std::string& code) {
    EXPECT_EQ(sk_exec(handle_, nullptr, code.data(), code.size(), nullptr, nullptr), SK_OK);
    sk_event event = {};
    event.struct_size = sizeof event;
    while (event.kind != SK_EVENT_STREAM) {
      ASSERT_EQ(sk_session_poll(handle_, kWaitMs, &event), SK_OK) << sk_last_error();
      ASSERT_NE(event.kind, SK_EVENT_NONE) << "the cell printed nothing";
    }
  }
  // What came beside cells: "tag: text".
  const std::vector<std::string>& notes() const { return notes_; }
  // What a shell started by this rank prints; its parent is the rank.
  std::string shell(const std::string& command, int rank = 0) {
    return run("sh " + command, std::to_string(rank).c_str()).text;
  }

 private:
  sk_session* handle_ = nullptr;
  std::vector<std::string> notes_;
};

// Fields of /proc/PID/stat behind the name: state, parent, group, session.
std::vector<std::string> stat_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  std::istringstream rest(line.substr(std::min(line.size(), line.rfind(')') + 1)));
  std::vector<std::string> fields;
  for (std::string field; rest >> field;) fields.push_back(field);
  return fields;
}

std::set<pid_t> children_of(pid_t parent) {
  std::set<pid_t> found;
  DIR* const processes = opendir("/proc");
  for (const dirent* entry = readdir(processes); entry != nullptr; entry = readdir(processes)) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid <= 0) continue;
    const auto fields = stat_of(pid);
    if (fields.size() > 3 && fields[1] == std::to_string(parent)) found.insert(pid);
  }
  closedir(processes);
  return found;
}

// Whether the process ends within the limit.
bool ends(pid_t pid) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) return errno == ESRCH;
  pollfd entry{fd, POLLIN, 0};
  const bool ended = poll(&entry, 1, kWaitMs) == 1;
  close(fd);
  return ended;
}

struct Family {
  pid_t controller = 0;
  pid_t process_template = 0;
  std::vector<pid_t> ranks;
};

Family family_of(Session& session, int ranks) {
  Family family;
  for (int rank = 0; rank < ranks; ++rank)
    family.ranks.push_back(std::atoi(session.shell("echo $PPID", rank).c_str()));
  const auto fields = stat_of(family.ranks[0]);
  if (fields.size() < 4) return family;
  family.controller = std::atoi(fields[1].c_str());
  for (const pid_t child : children_of(family.controller))
    if (std::count(family.ranks.begin(), family.ranks.end(), child) == 0)
      family.process_template = child;
  return family;
}

TEST(ExecTemplate, AForkedRankIsAsOneStartedByItself) {
  const std::vector<const char*> env = {"SK_TEST_NAME=a value", "SK_TEST_EMPTY="};
  Session started(3, 0, env, "/tmp"), forked(3, SK_SESSION_TEMPLATE, env, "/tmp");
  for (const char* probe : {
           // Numbers and kinds of its descriptors; the names of pipes and sockets differ.
           "cd /proc/$PPID/fd; for f in *; do echo $f $(readlink $f | tr -d 0-9); done | sort -n",
           "env -u RUN_ID | sort | grep -v -e _PORT -e RUN_ID -e COORDINATOR -e ^_=",
           "tr '\\0' '\\n' < /proc/$PPID/cmdline",
           "pwd",
           "ulimit -n",
           "umask",
           kStatus,
           kLeads,
       }) {
    for (const int rank : {0, 2}) {
      const std::string expected = started.shell(probe, rank);
      EXPECT_NE(expected, "") << probe;
      EXPECT_EQ(forked.shell(probe, rank), expected) << probe;
    }
  }
  EXPECT_EQ(forked.shell("echo $RANK of $WORLD_SIZE in $SK_TEST_NAME", 2), "2 of 3 in a value\n");
  EXPECT_EQ(forked.shell("env | grep -c SK_TEMPLATE", 1), "0\n");
}

TEST(ExecTemplate, RanksAreTheControllersChildrenAndNoneIsLeft) {
  Family family;
  {
    Session session(40, SK_SESSION_TEMPLATE);  // Several batches.
    EXPECT_EQ(session.run("print up").text, "up\n");
    family = family_of(session, 40);
    std::set<pid_t> expected(family.ranks.begin(), family.ranks.end());
    EXPECT_EQ(expected.size(), 40u);
    EXPECT_NE(family.process_template, 0);
    expected.insert(family.process_template);
    EXPECT_EQ(children_of(family.controller), expected);
  }
  for (const pid_t rank : family.ranks) EXPECT_TRUE(ends(rank));
  EXPECT_TRUE(ends(family.process_template));
}

TEST(ExecTemplate, TheEndOfARankIsSeenWithItsCause) {
  Session session(3, SK_SESSION_TEMPLATE);
  const Outcome exit = session.run("on 1 exit 7");
  EXPECT_EQ(exit.status, SK_CELL_ERROR);
  EXPECT_NE(exit.error.find("rank 1: exited with code 7"), std::string::npos) << exit.error;
  const Outcome killed = session.run("on 2 die 9", "0,2");
  EXPECT_NE(killed.error.find("rank 2: killed by signal 9"), std::string::npos) << killed.error;
  EXPECT_EQ(session.run("print alive", "0").text, "alive\n");
}

// Each way in which there can be no rank, and the words of its cause.
struct NoStart {
  const char* name;
  const char* how;
  const char* program;
  const char* cwd;
  int64_t start_timeout_ms;
  std::vector<const char*> words;
};

TEST(ExecTemplate, ATemplateThatCannotServeIsTheCauseOfDeath) {
  const NoStart cases[] = {
      {"fails",
       "SK_STUB_TEMPLATE=fail",
       SK_STUB_RANK,
       nullptr,
       kWaitMs,
       {"template", "exited with code 9 before it was ready", "told to fail as a template"}},
      {"hangs",
       "SK_STUB_TEMPLATE=hang",
       SK_STUB_RANK,
       nullptr,
       500,
       {"did not join within 500 ms", "template", "killed by signal 9"}},
      {"has threads",
       "SK_STUB_TEMPLATE=thread",
       SK_STUB_RANK,
       nullptr,
       kWaitMs,
       {kThreads, "single thread"}},
      {"speaks otherwise",
       "X=",
       "/bin/true",
       nullptr,
       kWaitMs,
       {"exited with code 0 before it was ready"}},
      {"is no program",
       "X=",
       "/no/such/program",
       nullptr,
       kWaitMs,
       {"could not be started", "/no/such"}},
      {"has no directory", "X=", SK_STUB_RANK, "/no/such/place", kWaitMs, {"/no/such/place"}},
  };
  for (const NoStart& each : cases) {
    Session session(2, SK_SESSION_TEMPLATE, {each.how}, each.cwd, each.start_timeout_ms,
                    each.program);
    const Outcome outcome = session.run("print never");
    EXPECT_EQ(outcome.status, SK_CELL_ERROR) << each.name;
    EXPECT_EQ(outcome.text, "") << each.name;
    for (const char* word : each.words)
      EXPECT_NE(outcome.error.find(word), std::string::npos) << each.name << ": " << outcome.error;
  }
}

// It loads for longer than a rank may take to join, and says so now and then.
TEST(ExecTemplate, NotesAreHeardAndGiveTheTemplateTime) {
  Session session(2, SK_SESSION_TEMPLATE, {"SK_STUB_TEMPLATE=notes"}, nullptr, 2'000);
  const Outcome outcome = session.run("print up");
  EXPECT_EQ(outcome.text, "up\n") << outcome.error;
  ASSERT_EQ(session.notes().size(), 8u);
  EXPECT_EQ(session.notes().front(), "template: step 0");
  EXPECT_EQ(session.notes().back(), "template: step 7");
}

TEST(ExecTemplate, ANoteOfWhatIsNoTemplateIsChecked) {
  unsetenv("SK_TEMPLATE_FD");
  EXPECT_EQ(sk_worker_template_note("x", 1), SK_OK);
  EXPECT_EQ(sk_worker_template_note(nullptr, 0), SK_ERR_INVALID_ARGUMENT);
  const std::string long_note(65'537, 'x');
  EXPECT_EQ(sk_worker_template_note(long_note.data(), long_note.size()), SK_ERR_OUT_OF_RANGE);
  EXPECT_NE(std::string(sk_last_error()).find("65537 bytes"), std::string::npos);
  setenv("SK_TEMPLATE_FD", "99999", 1);
  EXPECT_EQ(sk_worker_template_note("x", 1), SK_ERR_INVALID_ARGUMENT);
  unsetenv("SK_TEMPLATE_FD");
}

TEST(ExecTemplate, RanksOutliveTheirTemplate) {
  Session session(2, SK_SESSION_TEMPLATE);
  EXPECT_EQ(session.run("print up").text, "up\n");
  const Family family = family_of(session, 2);
  ASSERT_GT(family.process_template, 1);
  ASSERT_EQ(kill(family.process_template, SIGKILL), 0);
  ASSERT_TRUE(ends(family.process_template));
  EXPECT_EQ(session.run("print still").text, "still\n");
  // Reaped, too: only the ranks are left.
  EXPECT_EQ(children_of(family.controller),
            std::set<pid_t>(family.ranks.begin(), family.ranks.end()));
}

TEST(ExecTemplate, AKilledControllerTakesBusyRanksAndTemplateWithIt) {
  Session session(2, SK_SESSION_TEMPLATE);
  EXPECT_EQ(session.run("print up").text, "up\n");
  const Family family = family_of(session, 2);
  ASSERT_GT(family.controller, 1);
  session.begin("print begun\nhang 3600000");  // Does not look whether anybody is there.
  ASSERT_EQ(kill(family.controller, SIGKILL), 0);
  EXPECT_TRUE(ends(family.ranks[0]) && ends(family.ranks[1]));
  EXPECT_TRUE(ends(family.process_template));
}

TEST(ExecTemplate, OutsideATemplateItSaysSo) {
  int32_t forked = 7;
  unsetenv("SK_TEMPLATE_FD");
  EXPECT_EQ(sk_worker_template(&forked), SK_OK);
  EXPECT_EQ(forked, 0);
  EXPECT_EQ(sk_worker_template(nullptr), SK_ERR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(sk_last_error()).find("out_forked"), std::string::npos);
  for (const char* fd : {"x", "-1", "99999", ""}) {
    setenv("SK_TEMPLATE_FD", fd, 1);
    EXPECT_EQ(sk_worker_template(&forked), SK_ERR_INVALID_ARGUMENT) << fd;
    EXPECT_NE(std::string(sk_last_error()).find("SK_TEMPLATE_FD"), std::string::npos) << fd;
  }
  unsetenv("SK_TEMPLATE_FD");
}

}  // namespace
