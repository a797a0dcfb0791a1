// `sk controller --fd N`: the controller process of one session. libsk starts it; people do not.
#include <sys/stat.h>

#include <charconv>
#include <cstdio>
#include <cstring>

#include "lib/control/host/controller_host.h"
#include "tools/sk/verbs.h"
#include "transport/bootstrap/identity.h"

namespace {

// The descriptor that `text` names, if it is an open socket; -1 if not.
int socket_of(const char* text) {
  int fd = -1;
  const char* end = text + std::strlen(text);
  const auto [last, failure] = std::from_chars(text, end, fd);
  struct stat what {};
  if (failure != std::errc() || last != end || fd < 0 || fstat(fd, &what) != 0) return -1;
  return S_ISSOCK(what.st_mode) ? fd : -1;
}

}  // namespace

int run_controller(int argc, char** argv) {
  const bool has_fd = (argc == 3 || argc == 5) && std::strcmp(argv[1], "--fd") == 0;
  const bool has_door = argc == 5 && std::strcmp(argv[3], "--door") == 0;
  const int fd = has_fd ? socket_of(argv[2]) : -1;
  const int door = has_door ? socket_of(argv[4]) : -1;
  if (fd < 0 || (argc == 5 && door < 0)) {
    std::fputs(
        "usage: sk controller --fd N [--door M]\n\nServes one session over the open socket N. "
        "libsk starts "
        "this program in\nsk_session_open(); it is of no use by hand.\n",
        stderr);
    return 2;
  }
  sk::forget_launchers();
  const sk::Status status = sk::control::serve_session(fd, door);
  if (status.ok()) return 0;
  std::fprintf(stderr, "sk controller: %s\n", status.message().c_str());
  return 1;
}
