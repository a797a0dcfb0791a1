// Codes, sentences and the version: the part of the C ABI that every other part needs.
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "lib/api/guard.h"

namespace sk::api {
namespace {

// A fixed buffer: reporting that memory ran out must not need any.
thread_local char last_sentence[2048] = "";

}  // namespace

sk_status report(const Status& status) noexcept {
  if (status.ok()) return SK_OK;
  std::snprintf(last_sentence, sizeof last_sentence, "%s", status.message().c_str());
  return status.code();
}

}  // namespace sk::api

extern "C" {

const char* sk_last_error(void) noexcept { return sk::api::last_sentence; }

int32_t sk_version(void) noexcept {
  return SK_VERSION_MAJOR * 1'000'000 + SK_VERSION_MINOR * 1'000 + SK_VERSION_PATCH;
}

const char* sk_status_name(sk_status status) noexcept {
#define SK_NAME(code) \
  case code:          \
    return #code
  switch (status) {
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
    SK_NAME(SK_ERR_TRUST);
    SK_NAME(SK_ERR_INTERNAL);
    default:
      return "SK_ERR_?";
  }
#undef SK_NAME
}

}  // extern "C"
