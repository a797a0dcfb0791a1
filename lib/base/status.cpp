#include "lib/base/status.h"

#include <cerrno>
#include <cstring>
#include <system_error>

namespace sk {

const std::string& Status::message() const {
  static const std::string empty;
  return rep_ ? rep_->message : empty;
}

const char* status_name(int32_t code) {
#define SK_NAME(name) \
  case name:          \
    return #name
  switch (code) {
    SK_NAME(SK_OK);
    SK_NAME(SK_ERR_INVALID_ARGUMENT);
    SK_NAME(SK_ERR_OUT_OF_RANGE);
    SK_NAME(SK_ERR_UNSUPPORTED);
    SK_NAME(SK_ERR_BAD_HANDLE);
    SK_NAME(SK_ERR_BUSY);
    SK_NAME(SK_ERR_FORKED);
    SK_NAME(SK_ERR_DESYNC);
    SK_NAME(SK_ERR_PEER_LOST);
    SK_NAME(SK_ERR_ABORTED);
    SK_NAME(SK_ERR_TIMEOUT);
    SK_NAME(SK_ERR_NO_MEMORY);
    SK_NAME(SK_ERR_TRANSPORT);
    SK_NAME(SK_ERR_SYSTEM);
    SK_NAME(SK_ERR_DEVICE);
    SK_NAME(SK_ERR_TRUST);
    SK_NAME(SK_ERR_INTERNAL);
    default:
      return "SK_ERR_?";
  }
#undef SK_NAME
}

Status system_error(const std::string& what) {
  const int code = errno;
  const bool resource = code == ENOMEM || code == ENOSPC || code == EMFILE || code == ENFILE;
  return Status(resource ? SK_ERR_NO_MEMORY : SK_ERR_SYSTEM,
                what + ": " + std::generic_category().message(code));
}

}  // namespace sk
