// One process for each rank of a job: whoever holds the socket whose name stands for job and rank.
//
// The name is in no folder: no variable moves it, nothing has to be writable, and it is free once
// its process ends. It only tells mistakes apart early, so whatever keeps a claim from being made
// keeps no job from running.
#include <openssl/sha.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>

#include "lib/base/fork_lock.h"
#include "lib/base/lasting.h"
#include "transport/bootstrap/address.h"
#include "transport/bootstrap/kinds.h"

namespace sk {
namespace {

constexpr int kLooks = 20;  // At a name that is held where nobody listens.
constexpr int kLookMs = 1;

// Listening, by name. With the lock held only.
std::map<std::string, int>& held() {
  static Lasting<std::map<std::string, int>> instance;
  return *instance;
}

// What is only forked would hold its parent's names beyond the parent's end.
ForkLock held_lock{[] {
  for (const auto& [name, fd] : held()) close(fd);
  held().clear();
}};

Result<Address> name_of(const JobEnv& job) {
  SK_ASSIGN_OR_RETURN(const std::string space, process_space());
  std::string key = fmt::format("{} {} {}\n", space, job.rank, job.place());
  for (const std::byte b : job.job) key += char(b);
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest);
  return abstract_address("rank", std::as_bytes(std::span(digest)));
}

bool is_ancestor(pid_t wanted) {
  for (pid_t pid = getppid(); pid > 1;) {
    if (pid == wanted) return true;
    std::ifstream status(fmt::format("/proc/{}/status", pid));
    std::string word;
    pid = 0;
    while (status >> word) {
      if (word == "PPid:") {
        status >> pid;
        break;
      }
    }
  }
  return false;
}

Status taken(const JobEnv& job, pid_t holder) {
  const std::string who = holder > 0 ? fmt::format("process {}", holder) : "another process";
  if (!is_ancestor(holder)) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "the environment variable {} is {} in another process of this job too: {} is rank "
                 "{} until it ends; two processes cannot be one rank (SK_BOOTSTRAP=single makes "
                 "this one a world of one)",
                 job.rank_variable, job.rank, who, job.rank);
  }
  return error(
      SK_ERR_INVALID_ARGUMENT,
      "{}, from which this one descends, is rank {} of the job already; what a rank starts "
      "inherits its variables: set SK_BOOTSTRAP=single for a world of one, or one new "
      "SK_JOB_ID on every rank where the children are to be a world of their own",
      who, job.rank);
}

struct Holder {
  bool gone = false;     // Nobody listens: it may be free now.
  bool unknown = false;  // It cannot be asked, or is another user's.
  pid_t pid = 0;
};

// The inode of the socket that listens at `name`, by the kernel's table; empty: none does.
std::string listening_inode(const Address& name) {
  const auto* const socket_name = reinterpret_cast<const sockaddr_un*>(&name.storage);
  const size_t bytes = name.bytes - offsetof(sockaddr_un, sun_path);
  const std::string wanted = "@" + std::string(socket_name->sun_path + 1, bytes - 1);
  std::ifstream table("/proc/net/unix");
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string number, references, protocol, flags, type, state, inode, path;
    fields >> number >> references >> protocol >> flags >> type >> state >> inode >> path;
    constexpr const char* kAcceptsConnections = "00010000";
    if (path == wanted && flags == kAcceptsConnections) return inode;
  }
  return "";
}

// Whose process of this user has the socket; 0: none that can be seen. For a queue that is full,
// by whoever filled it: nobody can be asked then.
pid_t process_with(const std::string& inode) {
  const std::string wanted = "socket:[" + inode + "]";
  std::error_code failed;
  using Folder = std::filesystem::directory_iterator;
  for (Folder process("/proc", failed), end; !failed && process != end; process.increment(failed)) {
    pid_t pid = 0;
    const std::string name = process->path().filename();
    const auto [stop, code] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (code != std::errc() || stop != name.data() + name.size()) continue;
    std::error_code hidden;  // Another user's, or it has ended.
    for (Folder fd(process->path() / "fd", hidden); !hidden && fd != end; fd.increment(hidden)) {
      std::error_code closed;
      if (std::filesystem::read_symlink(fd->path(), closed) == wanted) return pid;
    }
  }
  return 0;
}

Holder look_at(const Address& name) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return {.unknown = true};
  Holder out;
  ucred peer{};
  socklen_t bytes = sizeof(peer);
  if (connect(fd, name.get(), name.bytes) != 0) {
    out.gone = errno == ECONNREFUSED;
    if (errno == EAGAIN) {
      const std::string inode = listening_inode(name);
      if (!inode.empty()) out.pid = process_with(inode);
    }
    out.unknown = !out.gone && out.pid == 0;
  } else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 || peer.uid != geteuid()) {
    out.unknown = true;
  } else {
    out.pid = peer.pid;
    // What it cloned past the C library may hold the name still; that is no rank.
    out.unknown = peer.pid > 0 && kill(peer.pid, 0) != 0 && errno == ESRCH;
  }
  close(fd);
  return out;
}

// Null where the name is held already.
std::optional<int> hold(const Address& name) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd >= 0 && bind(fd, name.get(), name.bytes) == 0 && listen(fd, SOMAXCONN) == 0) return fd;
  const bool in_use = fd >= 0 && errno == EADDRINUSE;
  if (fd >= 0) close(fd);
  return in_use ? std::nullopt : std::optional<int>(-1);
}

}  // namespace

Status claim_rank(const JobEnv& job) {
  SK_ASSIGN_OR_RETURN(const Address name, name_of(job));
  const std::string key(reinterpret_cast<const char*>(&name.storage), name.bytes);
  const std::lock_guard lock(held_lock);
  if (held().contains(key)) return {};
  for (int i = 0; i < kLooks; ++i) {
    if (const std::optional<int> fd = hold(name)) {
      if (*fd >= 0) held().emplace(key, *fd);
      return {};
    }
    const Holder holder = look_at(name);
    if (holder.unknown) return {};
    if (!holder.gone) return taken(job, holder.pid);
    poll(nullptr, 0, kLookMs);
  }
  return {};
}

}  // namespace sk
