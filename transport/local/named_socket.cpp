#include "transport/local/named_socket.h"

#include <dirent.h>
#include <errno.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "transport/local/link.h"

namespace sk::local {
namespace {

constexpr int kBacklog = 8;
constexpr std::string_view kSuffix = ".sock";

// In containers and behind su the variable may name a folder that is not there, or another user's.
bool is_usable(const char* path) {
  struct stat what {};
  return stat(path, &what) == 0 && S_ISDIR(what.st_mode) && access(path, W_OK | X_OK) == 0;
}

std::string folder() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime == '/' && is_usable(runtime))
    return std::string(runtime) + "/superkernel";
  return "/tmp/superkernel-" + std::to_string(geteuid());
}

std::string path_of(const std::string& name) {
  return folder() + "/" + name + std::string(kSuffix);
}

// Whoever can write there could put a socket of theirs in the place of ours.
Status make_folder() {
  const std::string path = folder();
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return system_error("mkdir " + path);
  struct stat what {};
  if (lstat(path.c_str(), &what) != 0) return system_error("lstat " + path);
  if (S_ISDIR(what.st_mode) && what.st_uid == geteuid() && (what.st_mode & 077) == 0) return {};
  return error(SK_ERR_TRUST, "{} must be a folder of user {} with mode 0700", path, geteuid());
}

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return error(SK_ERR_OUT_OF_RANGE,
                 "{} is too long for a socket's name: {} bytes, {} are allowed", path, path.size(),
                 sizeof address.sun_path - 1);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

// Does not wait: the queue of a process that is stopped may be full, and stay so.
Result<Fd> connect_at(const std::string& path) {
  SK_ASSIGN_OR_RETURN(const sockaddr_un address, address_of(path));
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.open()) return system_error("socket");
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    SK_RETURN_IF_ERROR(check_peer_is_same_user(fd.get()));
    return fd;
  }
  if (errno == ENOENT || errno == ECONNREFUSED)
    return error(SK_ERR_PEER_LOST, "nobody listens at {}", path);
  if (errno == EAGAIN)
    return error(SK_ERR_BUSY, "whoever listens at {} takes no connections: it is stopped or busy",
                 path);
  return system_error("connect " + path);
}

// Whether the name surely is that of a socket which has ended. One that was bound a moment ago and
// does not listen yet has not. The kernel tells by its answer to a connection of the wrong kind,
// which reaches nobody and waits for nobody.
bool is_dead(const std::string& path) {
  const auto found = address_of(path);
  if (!found.ok()) return false;
  const sockaddr_un& address = found.value();
  const Fd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return fd.open() &&
         connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
         errno == ECONNREFUSED;
}

// Taken out of the way before it is removed: another process may just have removed it too, and have
// put a living socket in its place.
void remove_dead(const std::string& path) {
  const std::string aside = fmt::format("{}.{}", path, getpid());
  if (rename(path.c_str(), aside.c_str()) != 0) return;
  if (!is_dead(aside)) (void)!link(aside.c_str(), path.c_str());
  unlink(aside.c_str());
}

// Names of processes that were killed.
void sweep() {
  const std::string path = folder();
  DIR* const open = opendir(path.c_str());
  if (open == nullptr) return;
  std::vector<std::string> names;
  while (const dirent* entry = readdir(open)) {
    const std::string name = entry->d_name;
    if (name.ends_with(kSuffix)) names.push_back(fmt::format("{}/{}", path, name));
  }
  closedir(open);
  for (const std::string& name : names)
    if (is_dead(name)) remove_dead(name);
}

}  // namespace

Result<Fd> listen_by_name(const std::string& name) {
  SK_RETURN_IF_ERROR(make_folder());
  sweep();
  const std::string path = path_of(name);
  SK_ASSIGN_OR_RETURN(const sockaddr_un address, address_of(path));
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.open()) return system_error("socket");
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno == EADDRINUSE)
      return error(SK_ERR_BUSY, "a session of this name is there already, at {}", path);
    return system_error("bind " + path);
  }
  if (chmod(path.c_str(), 0600) == 0 && listen(fd.get(), kBacklog) == 0) return fd;
  const Status failure = system_error("listen " + path);
  unlink(path.c_str());
  return failure.clone();
}

Result<Fd> connect_by_name(const std::string& name) {
  struct stat what {};
  if (lstat(folder().c_str(), &what) != 0)
    return error(SK_ERR_PEER_LOST, "nobody listens at {}", path_of(name));
  SK_RETURN_IF_ERROR(make_folder());
  return connect_at(path_of(name));
}

Result<Fd> accept_same_user(int listener) {
  Fd fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd.open()) return error(SK_ERR_PEER_LOST, "no connection waits");
  SK_RETURN_IF_ERROR(check_peer_is_same_user(fd.get()));
  return fd;
}

void remove_name(const std::string& name) { unlink(path_of(name).c_str()); }

}  // namespace sk::local
