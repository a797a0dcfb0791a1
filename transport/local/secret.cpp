#include "transport/local/secret.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

namespace sk::local {
namespace {

constexpr size_t kSecretBytes = 32;

}  // namespace

Result<std::string> random_hex(size_t bytes) {
  std::string raw(bytes, '\0');
  if (getrandom(raw.data(), raw.size(), 0) != ssize_t(raw.size())) return system_error("getrandom");
  std::string text;
  for (const char c : raw) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

Result<Fd> keep_job_secret(const std::string& secret) {
  Fd file(memfd_create("sk-job-secret", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.open()) return system_error("cannot keep a job secret: memfd_create");
  if (write(file.get(), secret.data(), secret.size()) != ssize_t(secret.size())) {
    return system_error("cannot keep a job secret: write");
  }
  constexpr int kAllSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
  if (fcntl(file.get(), F_ADD_SEALS, kAllSeals) != 0) {
    return system_error("cannot keep a job secret: seals");
  }
  return file;
}

Result<Fd> make_job_secret() {
  SK_ASSIGN_OR_RETURN(const std::string secret, random_hex(kSecretBytes));
  return keep_job_secret(secret);
}

}  // namespace sk::local
