#include "lib/base/status.h"

#include <cerrno>
#include <cstring>
#include <system_error>

namespace sk {

const std::string& Status::message() const {
  static const std::string empty;
  return rep_ ? rep_->message : empty;
}

Status system_error(const std::string& what) {
  const int code = errno;
  const bool resource = code == ENOMEM || code == ENOSPC || code == EMFILE || code == ENFILE;
  return Status(resource ? SK_ERR_NO_MEMORY : SK_ERR_SYSTEM,
                what + ": " + std::generic_category().message(code));
}

}  // namespace sk
