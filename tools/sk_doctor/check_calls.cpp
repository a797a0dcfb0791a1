// What ranks of one host ask of the kernel: tried here, since a sandbox may refuse any of it.
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "lib/base/status.h"
#include "tools/sk_doctor/checks.h"
#include "tools/sk_doctor/logind.h"
#include "transport/local/fd.h"

namespace sk::doctor {
namespace {

using local::Fd;

constexpr size_t kBytes = 1 << 20;

// The errno of what was refused last, by which the advice goes.
int refused_by = 0;

Status refused(const std::string& what) {
  refused_by = errno;
  return system_error(what);
}

// A memory file without a name, as every rank's segment is: sized, sealed, filled.
Result<Fd> memory_file() {
  Fd file(memfd_create("sk-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.open()) return refused("memfd_create()");
  if (ftruncate(file.get(), kBytes) != 0) return refused("ftruncate() of a memory file");
  if (fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return refused("F_ADD_SEALS of a memory file");
  if (fallocate(file.get(), 0, 0, kBytes) != 0) return refused("fallocate() of a memory file");
  return file;
}

// Both ends of a connection by a name in no folder, as ranks find each other.
Result<std::pair<Fd, Fd>> connected_by_name() {
  Fd listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  Fd dialer(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!listener.open() || !dialer.open()) return refused("a Unix socket");
  sockaddr_un name{};  // The kernel chooses a name that nobody has.
  name.sun_family = AF_UNIX;
  socklen_t bytes = sizeof(name.sun_family);
  if (bind(listener.get(), reinterpret_cast<sockaddr*>(&name), bytes) != 0 ||
      listen(listener.get(), 1) != 0)
    return refused("to listen at an abstract Unix socket");
  bytes = sizeof(name);
  if (getsockname(listener.get(), reinterpret_cast<sockaddr*>(&name), &bytes) != 0 ||
      connect(dialer.get(), reinterpret_cast<sockaddr*>(&name), bytes) != 0)
    return refused("to connect to an abstract Unix socket");
  Fd accepted(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!accepted.open()) return refused("to accept at an abstract Unix socket");
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(accepted.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return refused("SO_PEERCRED");
  if (peer.uid != geteuid())
    return error(SK_ERR_TRUST, "SO_PEERCRED says user {} of a connection of user {}", peer.uid,
                 geteuid());
  return std::pair(std::move(dialer), std::move(accepted));
}

// `file` over the connection.
Result<Fd> handed_over(const Fd& file, const Fd& from, const Fd& to) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  char byte = 0;
  iovec part{&byte, 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  const int number = file.get();
  std::memcpy(CMSG_DATA(header), &number, sizeof(number));
  if (sendmsg(from.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
    return refused("to send a descriptor (SCM_RIGHTS)");
  message.msg_controllen = sizeof(control);
  if (recvmsg(to.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) != 1)
    return refused("to receive a descriptor (SCM_RIGHTS)");
  header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS)
    return error(SK_ERR_SYSTEM, "a descriptor that was sent (SCM_RIGHTS) did not come");
  int came = -1;
  std::memcpy(&came, CMSG_DATA(header), sizeof(came));
  return Fd(came);
}

// What is written through one mapping is read through the other.
Status share(const Fd& file, const Fd& same) {
  const auto map = [](const Fd& fd) {
    return mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd.get(), 0);
  };
  void *a = map(file), *b = map(same);
  Status status;
  if (a == MAP_FAILED || b == MAP_FAILED) {
    status = refused("mmap() of a memory file");
  } else {
    std::memset(a, 0x5a, kBytes);
    const auto* bytes = static_cast<const unsigned char*>(b);
    if (!std::all_of(bytes, bytes + kBytes, [](unsigned char byte) { return byte == 0x5a; }))
      status = error(SK_ERR_SYSTEM, "two mappings of one memory file have different bytes");
  }
  if (a != MAP_FAILED) munmap(a, kBytes);
  if (b != MAP_FAILED) munmap(b, kBytes);
  return status;
}

Status try_shared_memory() {
  SK_ASSIGN_OR_RETURN(const Fd file, memory_file());
  SK_ASSIGN_OR_RETURN(const auto ends, connected_by_name());
  SK_ASSIGN_OR_RETURN(const Fd same, handed_over(file, ends.first, ends.second));
  return share(file, same);
}

// "no", "strict", "filter": whether a sandbox judges this process's system calls.
std::string seccomp() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("Seccomp:", 0) != 0) continue;
    const char mode = line.back();
    return mode == '0' ? "no seccomp" : mode == '1' ? "seccomp, strict" : "a seccomp filter";
  }
  return "seccomp not known, for /proc/self/status does not say";
}

std::string advice_for(int number) {
  switch (number) {
    case EPERM:
    case EACCES:
    case ENOSYS:
      return "allow it in the container's seccomp profile (docker run --security-opt "
             "seccomp=PROFILE.json)";
    case EMFILE:
      return "raise the limit of descriptors: ulimit -n 65536";
    case ENFILE:
      return "the whole machine has no descriptor left: raise fs.file-max (sysctl)";
    case EFBIG:
      return "raise the limit of files, of which shared memory is one: ulimit -f unlimited";
    case ENOMEM:
    case ENOSPC:
      return "give it more memory: end what is not needed, or raise the limits of the control "
             "group and of address space (ulimit -v unlimited)";
    default:
      return "docs/troubleshooting.md has what ranks of one host need of the kernel";
  }
}

}  // namespace

void tell_of_logind(Findings* findings) {
  const passwd* const user = getpwuid(geteuid());
  if (user == nullptr || !logind_removes_files("", geteuid(), user->pw_name)) return;
  findings->info("shared-memory",
                 fmt::format("systemd-logind removes flight records when the last session of {0} "
                             "ends, also of jobs that go on, unless RemoveIPC=no is in "
                             "/etc/systemd/logind.conf or `loginctl enable-linger {0}` was called",
                             user->pw_name));
}

void check_shared_memory(Findings* findings) {
  // Beyond RLIMIT_FSIZE the kernel would end this process; ignored, it is an error of the call.
  const auto before = signal(SIGXFSZ, SIG_IGN);
  const Status status = try_shared_memory();
  signal(SIGXFSZ, before);
  if (status.ok()) {
    findings->ok(
        "shared-memory",
        fmt::format("memory files, sealed and handed over by Unix sockets, work ({})", seccomp()));
  } else {
    findings->fault(
        "shared-memory",
        fmt::format("ranks of one host cannot share memory: {} ({})", status.message(), seccomp()),
        advice_for(refused_by));
  }
  struct statvfs shm {};
  if (statvfs("/dev/shm", &shm) == 0) {
    findings->info("shared-memory",
                   fmt::format("/dev/shm: {} of {} free; flight records alone lie there",
                               bytes_text(uint64_t(shm.f_bavail) * shm.f_frsize),
                               bytes_text(uint64_t(shm.f_blocks) * shm.f_frsize)));
  } else {
    findings->info("shared-memory",
                   fmt::format("/dev/shm: {}; flight records lie elsewhere", std::strerror(errno)));
  }
  tell_of_logind(findings);
}

// By it `sk run` and notebooks watch their ranks, and ranks each other.
void check_pidfd(Findings* findings) {
  const Fd own(int(syscall(SYS_pidfd_open, getpid(), 0)));
  if (own.open()) {
    findings->ok("pidfd", "processes can be watched (pidfd_open)");
    return;
  }
  const int number = errno;
  findings->fault("pidfd",
                  fmt::format("pidfd_open(): {}; sk run and notebooks cannot watch their ranks",
                              std::strerror(number)),
                  number == ENOSYS ? "Linux 5.3 or later is needed" : advice_for(number));
}

}  // namespace sk::doctor
