#include "lib/base/status.h"

#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>

#include "lib/base/lasting.h"

namespace sk {

const std::string& Status::message() const {
  static const std::string empty;
  return rep_ ? rep_->message : empty;
}

// Its sentence is short enough to lie in the string itself.
Status::Rep* Status::no_memory_rep() noexcept {
  static Lasting<Rep> rep(Rep{SK_ERR_NO_MEMORY, "memory ran out"});
  return &*rep;
}

void Status::Drop::operator()(Rep* rep) const noexcept {
  if (rep != no_memory_rep()) delete rep;
}

Status Status::no_memory() noexcept {
  Status status;
  status.rep_.reset(no_memory_rep());
  return status;
}

Status Status::clone() const {
  if (rep_.get() == no_memory_rep()) return no_memory();
  return rep_ ? Status(rep_->code, rep_->message) : Status();
}

namespace {

Status internal_error(const char* message) noexcept {
  try {
    return Status(SK_ERR_INTERNAL, message);
  } catch (const std::bad_alloc&) {
    return Status::no_memory();
  }
}

}  // namespace

Status caught_exception() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return Status::no_memory();
  } catch (const std::exception& thrown) {
    return internal_error(thrown.what());
  } catch (...) {  // Of a caller's function.
    return internal_error("an exception that is no std::exception");
  }
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
    SK_NAME(SK_ERR_TILE);
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
