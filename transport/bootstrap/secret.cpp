#include "transport/bootstrap/secret.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "lib/base/fork_lock.h"
#include "transport/bootstrap/env.h"
#include "transport/bootstrap/secret_fd.h"

namespace sk {
namespace {

constexpr size_t kSecretBytesMin = 16;
constexpr size_t kSecretBytesMax = 4096;
constexpr int kPipeWaitMs = 5'000;
constexpr const char* kSecretFd = "SK_JOB_SECRET_FD";
constexpr const char* kSecretText = "SK_JOB_SECRET";

// Of taken_in(): every call that makes a communicator reads variables, whatever thread forks.
ForkLock taken_in_lock;

// What the variables were that have been taken out of the environment. With the lock.
std::map<std::string, std::string>& taken_in() {
  // Never freed: threads may outlive static destruction.
  static auto* instance = new std::map<std::string, std::string>;
  return *instance;
}

Status check_secret(const std::string& secret, const std::string& from) {
  if (secret.size() >= kSecretBytesMin && secret.size() <= kSecretBytesMax) return {};
  return error(SK_ERR_INVALID_ARGUMENT,
               "the job secret of {} has {}{} bytes: it must have {} to {}", from,
               secret.size() > kSecretBytesMax ? "more than " : "",
               std::min(secret.size(), kSecretBytesMax), kSecretBytesMin, kSecretBytesMax);
}

// Reads to the end, at most one byte more than allowed. A file is read from its start, for several
// processes may share the offset; a pipe gives its bytes once.
Result<std::string> read_all(int fd, const std::string& from) {
  std::string out(kSecretBytesMax + 1, '\0');
  size_t size = 0;
  const bool seekable = lseek(fd, 0, SEEK_CUR) >= 0;
  while (size < out.size()) {
    pollfd entry = {fd, POLLIN, 0};
    if (!seekable && poll(&entry, 1, kPipeWaitMs) == 0) {
      return error(SK_ERR_TIMEOUT,
                   "the job secret of {} did not come to its end within {} ms: whoever writes it "
                   "must close the pipe",
                   from, kPipeWaitMs);
    }
    const ssize_t got = seekable ? pread(fd, &out[size], out.size() - size, off_t(size))
                                 : read(fd, &out[size], out.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("cannot read the job secret of " + from);
    if (got == 0) break;
    size += size_t(got);
  }
  out.resize(size);
  return out;
}

// Later communicators of the process need the secret again, so it is kept. The descriptor is closed
// once it has given a secret: what this process starts has no use for it.
Result<std::string> read_secret_fd(const std::string& text) {
  static std::mutex mutex;
  static std::map<std::string, std::string> read_before;
  const std::lock_guard lock(mutex);
  if (const auto it = read_before.find(text); it != read_before.end()) return it->second;
  SK_ASSIGN_OR_RETURN(const SecretFd found, find_secret_fd(text));
  fcntl(found.number, F_SETFD, FD_CLOEXEC);  // Also of what turns out to be of no use.
  SK_ASSIGN_OR_RETURN(std::string secret, read_all(found.number, kSecretFd));
  SK_RETURN_IF_ERROR(check_secret(secret, kSecretFd));
  close(found.number);
  read_before[text] = secret;
  return secret;
}

Result<std::string> read_secret_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return system_error("cannot open the job secret file " + path);
  struct stat info;
  Result<std::string> out = std::string();
  if (fstat(fd, &info) != 0) {
    out = system_error("cannot look at the job secret file " + path);
  } else if (!S_ISREG(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & 077) != 0) {
    out = error(SK_ERR_TRUST,
                "the job secret file {} has mode {:o} and owner {}: it must be a regular file of "
                "user {} that nobody else may read or write (mode 600)",
                path, info.st_mode & 07777, info.st_uid, geteuid());
  } else {
    out = read_all(fd, path);
  }
  close(fd);
  return out;
}

}  // namespace

void take_in_job_secret() {
  const std::lock_guard lock(taken_in_lock);
  for (const char* name : {kSecretFd, kSecretText}) {
    char* const text = std::getenv(name);
    if (text == nullptr) continue;
    taken_in()[name] = text;
    explicit_bzero(text, strlen(text));  // /proc/PID/environ shows this memory.
    unsetenv(name);
  }
  const auto fd = taken_in().find(kSecretFd);
  if (fd == taken_in().end()) return;
  // What is wrong with it is told to whoever needs it.
  [[maybe_unused]] const Result<std::string> read = read_secret_fd(fd->second);
}

std::optional<std::string> process_env(const char* name) {
  if (const char* value = std::getenv(name); value != nullptr) return value;
  const std::lock_guard lock(taken_in_lock);
  const auto it = taken_in().find(name);
  if (it == taken_in().end()) return std::nullopt;
  return it->second;
}

Result<std::string> read_job_secret(const EnvLookup& env, bool here) {
  Result<std::string> secret = std::string();
  std::string from;
  if (const auto fd = here ? std::nullopt : env("SK_JOB_SECRET_FD")) {
    from = "SK_JOB_SECRET_FD";
    secret = read_secret_fd(*fd);
  } else if (const auto file = env("SK_JOB_SECRET_FILE")) {
    from = *file;
    secret = read_secret_file(*file);
  } else if (const auto text = env("SK_JOB_SECRET")) {
    from = "SK_JOB_SECRET";
    secret = *text;
  } else {
    return std::string();
  }
  if (!secret.ok()) return std::move(secret.status());
  SK_RETURN_IF_ERROR(check_secret(*secret, from));
  return secret;
}

Result<Mac> hmac(std::span<const std::byte> key,
                 std::initializer_list<std::span<const std::byte>> parts) {
  std::vector<std::byte> text;
  for (const std::span<const std::byte> part : parts) {
    const uint64_t size = part.size();
    const auto* size_bytes = reinterpret_cast<const std::byte*>(&size);
    text.insert(text.end(), size_bytes, size_bytes + sizeof(size));
    text.insert(text.end(), part.begin(), part.end());
  }
  Mac out{};
  unsigned int size = 0;
  const void* key_data = key.empty() ? static_cast<const void*>("") : key.data();
  const unsigned char* done = HMAC(EVP_sha256(), key_data, static_cast<int>(key.size()),
                                   reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                                   reinterpret_cast<unsigned char*>(out.data()), &size);
  if (done == nullptr) return error(SK_ERR_NO_MEMORY, "OpenSSL could not compute an HMAC");
  return out;
}

bool equal_mac(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Status fill_random(std::span<std::byte> out) {
  size_t size = 0;
  while (size < out.size()) {
    const ssize_t got = getrandom(&out[size], out.size() - size, 0);
    if (got < 0 && errno != EINTR) return system_error("getrandom");
    if (got > 0) size += size_t(got);
  }
  return {};
}

}  // namespace sk
