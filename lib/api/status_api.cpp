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

const char* sk_status_name(sk_status status) noexcept { return sk::status_name(status); }

}  // extern "C"
