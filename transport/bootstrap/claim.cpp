// One process for each rank of a job, by a lock on a byte of a file that all jobs of a user share.
//
// A lock belongs to a process: it is not inherited and ends with it, whatever becomes of what it
// started. The byte's place stands for job and rank, so the file stays empty and is never cleaned.
#include <fcntl.h>
#include <openssl/sha.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>

#include "transport/bootstrap/kinds.h"

namespace sk {
namespace {

std::string claims_path() {
  const char* const folder = std::getenv("TMPDIR");
  return fmt::format("{}/superkernel-{}.ranks", folder != nullptr && *folder != 0 ? folder : "/tmp",
                     geteuid());
}

// Open for as long as the process lives: closing it would give every claim back.
class ClaimsFile {
 public:
  ~ClaimsFile() {
    if (fd_ >= 0) close(fd_);
  }
  Result<int> get() {
    const std::lock_guard lock(mutex_);
    if (fd_ >= 0) return fd_;
    const std::string path = claims_path();
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    const std::string use =
        "the file in which the ranks of this user say that they are there; TMPDIR may name another "
        "folder";
    if (fd < 0) return system_error(fmt::format("cannot open {}, {}", path, use));
    struct stat info {};
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid() ||
        (info.st_mode & 077) != 0) {
      close(fd);
      return error(
          SK_ERR_TRUST,
          "{} has mode {:o} and owner {}: it must be a file of user {} alone (mode 600), {}", path,
          info.st_mode & 07777, info.st_uid, geteuid(), use);
    }
    fd_ = fd;
    return fd_;
  }

 private:
  std::mutex mutex_;
  int fd_ = -1;
};

ClaimsFile& claims_file() {
  static ClaimsFile instance;
  return instance;
}

off_t byte_of(const JobEnv& job) {
  std::string key = fmt::format("{} {}\n", job.rank, job.place());
  for (const std::byte b : job.job) key += char(b);
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest);
  uint64_t place = 0;
  std::memcpy(&place, digest, sizeof(place));
  return off_t(place >> 2);
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

}  // namespace

Status claim_rank(const JobEnv& job) {
  SK_ASSIGN_OR_RETURN(const int fd, claims_file().get());
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte_of(job);
  lock.l_len = 1;
  while (true) {
    if (fcntl(fd, F_SETLK, &lock) == 0) return {};
    if (errno != EAGAIN && errno != EACCES) return system_error("cannot lock " + claims_path());
    struct flock other = lock;
    if (fcntl(fd, F_GETLK, &other) != 0)
      return system_error("cannot ask for locks of " + claims_path());
    if (other.l_type != F_UNLCK) return taken(job, other.l_pid);
  }  // Whoever had it has ended between the two calls.
}

}  // namespace sk
