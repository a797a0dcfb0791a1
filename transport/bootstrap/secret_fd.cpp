#include "transport/bootstrap/secret_fd.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>

namespace sk {
namespace {

constexpr const char* kOtherwise =
    "; let it through (Python's subprocess: pass_fds), or set SK_JOB_SECRET_FILE";

struct Name {
  int number = -1;
  uint64_t device = 0;
  uint64_t inode = 0;
};

template <typename Number>
bool read_part(const char*& at, const char* end, char before, Number& out) {
  if (before != '\0') {
    if (at == end || *at != before) return false;
    ++at;
  }
  const auto [stop, code] = std::from_chars(at, end, out);
  at = stop;
  return code == std::errc();
}

bool read_name(const std::string& text, Name& out) {
  const char* at = text.data();
  const char* const end = at + text.size();
  return read_part(at, end, '\0', out.number) && out.number >= 0 &&
         read_part(at, end, ':', out.device) && read_part(at, end, ':', out.inode) && at == end;
}

// What is no descriptor's name may be the secret itself, given to the wrong variable.
std::string shown(const std::string& text) {
  return text.find_first_not_of("0123456789:") == std::string::npos
             ? fmt::format("\"{}\"", text.substr(0, 64))
             : fmt::format("{} bytes of text", text.size());
}

bool is_sealed_memory(int fd) {
  const int seals = fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_WRITE) != 0;
}

}  // namespace

Result<std::string> name_secret_fd(int fd, int number) {
  struct stat info;
  if (fstat(fd, &info) != 0) return system_error("cannot look at the job secret: fstat");
  return fmt::format("{}:{}:{}", number, info.st_dev, info.st_ino);
}

Result<SecretFd> find_secret_fd(const std::string& text) {
  Name name;
  if (!read_name(text, name)) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "the environment variable SK_JOB_SECRET_FD is {}: it must be "
                 "NUMBER:DEVICE:INODE of an open descriptor (stat -Lc {}:%d:%i /dev/fd/{})",
                 shown(text), name.number >= 0 ? std::to_string(name.number) : "N",
                 name.number >= 0 ? std::to_string(name.number) : "N");
  }
  struct stat info;
  if (fstat(name.number, &info) != 0) {
    return system_error(fmt::format(
        "SK_JOB_SECRET_FD names descriptor {}, which whoever started this process did not leave "
        "open{}",
        name.number, kOtherwise));
  }
  if (info.st_dev != name.device || info.st_ino != name.inode) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "SK_JOB_SECRET_FD is \"{}\", and descriptor {} is {}:{}: whoever started this "
                 "process closed the secret's{}",
                 text, name.number, info.st_dev, info.st_ino, kOtherwise);
  }
  const bool pipe = S_ISFIFO(info.st_mode) && info.st_uid == geteuid();
  if (!pipe && !is_sealed_memory(name.number)) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "SK_JOB_SECRET_FD names descriptor {}, which must be a memory file sealed against "
                 "writing or a pipe of user {}; for another file set SK_JOB_SECRET_FILE",
                 name.number, geteuid());
  }
  return SecretFd{name.number, pipe};
}

}  // namespace sk
