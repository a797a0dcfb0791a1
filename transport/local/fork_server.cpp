#include "transport/local/fork_server.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "transport/local/fork_wire.h"
#include "transport/local/link.h"

namespace sk::local {
namespace {

constexpr int kFirstScratchFd = 100;  // Above every target of a request.
constexpr int kExitSetup = 126;

int count_threads() {
  const std::unique_ptr<DIR, int (*)(DIR*)> tasks(opendir("/proc/self/task"), closedir);
  int count = 0;
  for (const dirent* entry = tasks ? readdir(tasks.get()) : nullptr; entry != nullptr;
       entry = readdir(tasks.get()))
    count += entry->d_name[0] != '.' ? 1 : 0;
  return count;
}

// To whoever captures this process's words: the cause of a rank's death shows them.
void last_words(const std::string& text) {
  const std::string line = "template: " + text + "\n";
  ssize_t ignored = write(STDERR_FILENO, line.data(), line.size());
  (void)ignored;
}

[[noreturn]] void give_up(const std::string& what) {
  last_words(what + ": " + strerror(errno));
  _exit(kExitSetup);
}

// Out of the way first, so that no target overwrites a source that is still needed.
void place_fds(ForkRequest& request) {
  for (auto& [fd, target] : request.fds) {
    const int scratch = fcntl(fd.get(), F_DUPFD_CLOEXEC, kFirstScratchFd);
    if (scratch < 0) give_up("fcntl(F_DUPFD)");
    fd.reset(scratch);
  }
  for (auto& [fd, target] : request.fds)
    if (dup2(fd.get(), target) < 0) give_up("dup2");
  request.fds.clear();
}

// Until the template says that the controller is our parent now.
void wait_for_go(Fd go, pid_t controller) {
  char byte = 0;
  ssize_t n = -1;
  do n = read(go.get(), &byte, 1);
  while (n < 0 && errno == EINTR);
  if (n != 1) _exit(kExitSetup);  // The template is gone, and with it whoever waits for us.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) give_up("prctl(PR_SET_PDEATHSIG)");
  if (getppid() != controller) _exit(kExitSetup);  // It died before the prctl.
}

void become(ForkRequest request, Fd go, pid_t controller) {
  setsid();
  place_fds(request);
  if (!request.cwd.empty() && chdir(request.cwd.c_str()) != 0)
    give_up("cannot change to " + request.cwd);
  for (const std::string& line : request.env) {
    const size_t equals = line.find('=');
    if (setenv(line.substr(0, equals).c_str(), line.c_str() + equals + 1, 1) != 0)
      give_up("setenv");
  }
  wait_for_go(std::move(go), controller);
}

bool is_closed(int socket) {
  char byte = 0;
  ssize_t n = -1;
  do n = recv(socket, &byte, 1, MSG_PEEK);
  while (n < 0 && errno == EINTR);
  return n <= 0;
}

// In the intermediate: forks the processes of one batch. True in a new process.
bool fork_batch(Fd& socket, Fd& go_read, Fd& go_write, pid_t controller) {
  while (true) {
    auto request = receive_request(socket.get());
    if (!request.ok() || !request->has_value()) {
      if (!request.ok()) last_words(request.status().message());
      return false;
    }
    const bool last = (*request)->last;
    const uint32_t id = (*request)->id;
    const pid_t pid = fork();
    if (pid == 0) {
      go_write.reset();
      socket.reset();
      become(std::move(**request), std::move(go_read), controller);
      return true;
    }
    const ForkReply reply{id, pid > 0 ? pid : 0, pid > 0 ? 0 : errno};
    if (!send_reply(socket.get(), reply) || last) return false;
  }
}

}  // namespace

Result<Forked> serve_forks(Fd socket, pid_t controller) {
  const int threads = count_threads();
  if (threads != 1)
    return error(SK_ERR_INVALID_ARGUMENT,
                 "this process has {} threads; only one that has a single thread can be forked",
                 threads);
  SK_RETURN_IF_ERROR(set_nonblocking(socket.get(), false));
  if (!send_reply(socket.get(), {kForkReady})) return Forked::kOver;
  fflush(nullptr);  // What is buffered now would be written by every new process again.
  while (true) {
    if (!wait_for(socket.get(), false, 3'600'000)) continue;
    if (is_closed(socket.get())) return Forked::kOver;
    SK_ASSIGN_OR_RETURN(auto go, pipe_pair());
    const pid_t intermediate = fork();
    if (intermediate < 0) return system_error("fork");
    if (intermediate == 0) {
      if (!fork_batch(socket, go.first, go.second, controller)) _exit(0);
      return Forked::kNewProcess;
    }
    int status = 0;
    while (waitpid(intermediate, &status, 0) < 0 && errno == EINTR) continue;
    if (!send_reply(socket.get(), {kForkDone})) return Forked::kOver;
    // One byte for each; those too many vanish with the pipe.
    const char bytes[kForkBatchMax] = {};
    if (write(go.second.get(), bytes, sizeof bytes) < 0) return system_error("write to a pipe");
  }
}

}  // namespace sk::local
