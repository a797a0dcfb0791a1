// A rank for the tests of `sk status`. Each argument is a step; ranks may have other steps than
// rank 0 where one begins with "N:", for rank N alone.
//   barrier K       K barriers
//   allreduce N     of N floats
//   second          a second communicator, "second", which the steps behind it use
//   say TEXT        a line
//   meet FOLDER     waits, without the library, until all ranks have come here
//   stop            raises SIGSTOP
//   pause           waits for a signal that never comes
//   kill            raises SIGKILL
//   exec PROGRAM N  becomes another program, with one argument
//   fork            a child that leaves at once with status 0, then a line
//   leave N         exit(N), communicators as they are; _leave N: _exit(N)
//   retire          the first thread ends, another one goes on
//   free            frees the communicator
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "sk.h"
#include "tests/support/until.h"

namespace {

void must(sk_status status) {
  if (status == SK_OK) return;
  std::fprintf(stderr, "%s\n", sk_last_error());
  std::exit(9);
}

void say(const std::string& line) {
  const std::string text = line + "\n";  // One write, so that lines of several ranks stay whole.
  if (write(STDOUT_FILENO, text.data(), text.size()) < 0) std::exit(8);
}

sk_comm* make(sk_context* context, const char* name) {
  sk_comm_config config{};
  config.struct_size = sizeof(config);
  config.name = name;
  const char* patience = std::getenv("SK_TEST_TIMEOUT_MS");
  config.timeout_ms = patience == nullptr ? 60'000 : std::atoi(patience);
  sk_comm* comm = nullptr;
  must(sk_comm_create(context, &config, &comm));
  return comm;
}

}  // namespace

int main(int argc, char** argv) {
  // Where a shell starts several, its end is theirs.
  if (std::getenv("SK_TEST_RANK") != nullptr) prctl(PR_SET_PDEATHSIG, SIGKILL);
  sk_context* context = nullptr;
  must(sk_init(nullptr, &context));
  sk_comm* comm = make(context, nullptr);
  sk_comm_info info{};
  info.struct_size = sizeof(info);
  must(sk_comm_query(comm, &info));
  std::vector<float> x(1 << 20, 1.0f);
  for (int i = 1; i < argc; ++i) {
    std::string step = argv[i];
    if (const size_t colon = step.find(':'); colon != std::string::npos) {
      if (std::atoi(step.c_str()) != info.rank) continue;
      step = step.substr(colon + 1);
    }
    const size_t space = step.find(' ');
    const std::string word = step.substr(0, space);
    const std::string rest = space == std::string::npos ? "" : step.substr(space + 1);
    if (word == "barrier") {
      for (int k = std::atoi(rest.c_str()); k > 0; --k) must(sk_barrier(comm, nullptr));
    } else if (word == "allreduce") {
      must(
          sk_allreduce(comm, x.data(), x.data(), std::atoi(rest.c_str()), SK_F32, SK_MAX, nullptr));
    } else if (word == "second") {
      comm = make(context, "second");
    } else if (word == "say") {
      say(rest);
    } else if (word == "meet") {
      const std::ofstream made(rest + "/" + std::to_string(info.rank));
      for (int rank = 0; rank < info.world_size; ++rank) {
        const std::string file = rest + "/" + std::to_string(rank);
        if (!sk::testing_support::until([&] { return access(file.c_str(), F_OK) == 0; })) return 6;
      }
    } else if (word == "retire") {  // The first thread ends, another one goes on.
      std::thread([] { pause(); }).detach();
      pthread_exit(nullptr);
    } else if (word == "stop") {
      raise(SIGSTOP);
    } else if (word == "pause") {
      for (;;) pause();
    } else if (word == "kill") {
      raise(SIGKILL);
    } else if (word == "exec") {
      const size_t end = rest.find(' ');
      const std::string program = rest.substr(0, end), argument = rest.substr(end + 1);
      execlp(program.c_str(), program.c_str(), argument.c_str(), nullptr);
      return 6;
    } else if (word == "fork") {
      const pid_t child = fork();
      if (child == 0) std::exit(0);
      waitpid(child, nullptr, 0);
    } else if (word == "leave") {
      std::exit(std::atoi(rest.c_str()));
    } else if (word == "_leave") {
      _exit(std::atoi(rest.c_str()));
    } else if (word == "free") {
      must(sk_comm_free(comm));
    } else {
      std::fprintf(stderr, "\"%s\" is no step\n", step.c_str());
      return 7;
    }
  }
  return 0;
}
