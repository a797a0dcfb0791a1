// What a command of a shell's printed, and how it ended.
#ifndef SK_TESTS_SUPPORT_SHELL_H_
#define SK_TESTS_SUPPORT_SHELL_H_

#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace sk::testing_support {

struct Outcome {
  int status;  // Of its exit; less than 0: by that signal, or -1 where none was started.
  std::string text;
};

// Of stdout, and of what the command sends there.
inline Outcome shell(const std::string& command) {
  Outcome out{-1, ""};
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return out;
  char chunk[4096];
  for (size_t got; (got = fread(chunk, 1, sizeof(chunk), pipe)) > 0;) out.text.append(chunk, got);
  const int status = pclose(pipe);
  out.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return out;
}

}  // namespace sk::testing_support

#endif  // SK_TESTS_SUPPORT_SHELL_H_
