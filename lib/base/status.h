// Status and Result: how every function inside libsk reports failure.
//
// A Status is a code of include/sk/base.h and one sentence. Nothing of ours throws; caught() turns
// what the standard library throws, std::bad_alloc above all, into a Status: at the C ABI, in every
// thread's body, and wherever others wait for what an exception would skip.
#ifndef SK_LIB_BASE_STATUS_H_
#define SK_LIB_BASE_STATUS_H_

#include <fmt/format.h>

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "sk/base.h"

namespace sk {

class [[nodiscard]] Status {
 public:
  Status() = default;  // Success: no allocation, so the hot path may return it freely.
  Status(int32_t code, std::string message) : rep_(new Rep{code, std::move(message)}) {}
  // "memory ran out": the one failure that must need no memory to be told. Nor do its copies.
  static Status no_memory() noexcept;

  bool ok() const { return rep_ == nullptr; }
  int32_t code() const { return rep_ ? rep_->code : SK_OK; }
  const std::string& message() const;

  // Puts `context` and a colon before the sentence: the origin says what, callers say where.
  Status with_context(const std::string& context) && {
    if (rep_) *this = Status(rep_->code, context + ": " + rep_->message);
    return std::move(*this);
  }
  Status clone() const;

 private:
  struct Rep {
    int32_t code;
    std::string message;
  };
  struct Drop {
    void operator()(Rep* rep) const noexcept;
  };
  static Rep* no_memory_rep() noexcept;
  std::unique_ptr<Rep, Drop> rep_;
};

template <typename... Args>
Status error(int32_t code, fmt::format_string<Args...> format, Args&&... args) {
  return Status(code, fmt::format(format, std::forward<Args>(args)...));
}

// "SK_ERR_TIMEOUT" for SK_ERR_TIMEOUT; "SK_ERR_?" for a number that is no code.
const char* status_name(int32_t code);

// A system call's failure: the sentence ends in errno's text. Call before anything changes errno.
Status system_error(const std::string& what);

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  // Of an error: a success without a value would pass for one.
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    if (status_.ok()) [[unlikely]]
      status_ = Status(SK_ERR_INTERNAL, "neither a value nor an error came");
  }

  bool ok() const { return value_.has_value(); }
  Status& status() { return status_; }
  const Status& status() const { return status_; }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  T& operator*() & { return *value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

// Inside a catch block: what was thrown, by the standard library or a function of the caller.
Status caught_exception() noexcept;

// Runs `body`, which returns a Status or a Result, and lets no exception out.
template <typename Body>
auto caught(Body&& body) noexcept -> decltype(body()) {
  try {
    return std::forward<Body>(body)();
  } catch (...) {
    return caught_exception();
  }
}

#define SK_RETURN_IF_ERROR(expression)      \
  do {                                      \
    ::sk::Status sk_status_ = (expression); \
    if (!sk_status_.ok()) [[unlikely]]      \
      return sk_status_;                    \
  } while (0)

#define SK_CONCAT_(a, b) a##b
#define SK_CONCAT(a, b) SK_CONCAT_(a, b)
// SK_ASSIGN_OR_RETURN(auto x, f()): the value of f(), or an early return of its status.
#define SK_ASSIGN_OR_RETURN(declaration, expression)            \
  auto SK_CONCAT(sk_result_, __LINE__) = (expression);          \
  if (!SK_CONCAT(sk_result_, __LINE__).ok()) [[unlikely]]       \
    return std::move(SK_CONCAT(sk_result_, __LINE__).status()); \
  declaration = std::move(SK_CONCAT(sk_result_, __LINE__)).value()

}  // namespace sk

#endif  // SK_LIB_BASE_STATUS_H_
