#include <fcntl.h>
#include <openssl/sha.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>

#include "transport/bootstrap/bootstrap.h"

namespace sk {
namespace {

constexpr size_t kHostIdBytes = 16;

Status append_file(const char* path, std::string& out) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return system_error(fmt::format("cannot open {}", path));
  char text[256];
  const ssize_t size = read(fd, text, sizeof(text));
  Status status = size < 0 ? system_error(fmt::format("cannot read {}", path)) : Status();
  close(fd);
  if (size > 0) out.append(text, static_cast<size_t>(size));
  return status;
}

Status append_space(const char* space, std::string& out) {
  struct stat info;
  const std::string path = fmt::format("/proc/self/ns/{}", space);
  if (stat(path.c_str(), &info) != 0) return system_error("cannot look at " + path);
  out += fmt::format("{} {}:{}\n", space, info.st_dev, info.st_ino);
  return {};
}

}  // namespace

Result<std::string> process_space() {
  std::string out;
  SK_RETURN_IF_ERROR(append_file("/proc/sys/kernel/random/boot_id", out));
  SK_RETURN_IF_ERROR(append_space("pid", out));
  return out;
}

// The host's name is no part of it: containers repeat names, and one host may have two. Nor are the
// spaces of mounts and PIDs: containers that share a network pass each other descriptors.
Result<std::vector<std::byte>> host_id() {
  std::string seed;
  SK_RETURN_IF_ERROR(append_file("/proc/sys/kernel/random/boot_id", seed));
  SK_RETURN_IF_ERROR(append_space("net", seed));
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(seed.data()), seed.size(), digest);
  const auto* bytes = reinterpret_cast<const std::byte*>(digest);
  return std::vector<std::byte>(bytes, bytes + kHostIdBytes);
}

void Bootstrap::place(std::span<const std::byte> host_ids) {
  host_of_.assign(static_cast<size_t>(world_size_), 0);
  std::map<std::string, int> first_of_host;
  for (int r = 0; r < world_size_; ++r) {
    const auto* id = reinterpret_cast<const char*>(&host_ids[r * kHostIdBytes]);
    host_of_[r] = first_of_host.emplace(std::string(id, kHostIdBytes), r).first->second;
  }
  local_rank_ = local_size_ = 0;
  for (int r = 0; r < world_size_; ++r) {
    if (host_of_[r] != host_of_[rank_]) continue;
    if (r < rank_) ++local_rank_;
    ++local_size_;
  }
}

}  // namespace sk
