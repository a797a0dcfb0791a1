// Which function of the caller's this thread is inside of, for the sentence of a call that would
// wait for the one that calls it.
#ifndef SK_LIB_BASE_INSIDE_CALLBACK_H_
#define SK_LIB_BASE_INSIDE_CALLBACK_H_

#include <utility>

namespace sk {

class InsideCallback {
 public:
  // `name` is a literal, as a caller knows it: "options.waiting".
  explicit InsideCallback(const char* name) : before_(std::exchange(name_, name)) {}
  ~InsideCallback() { name_ = before_; }
  InsideCallback(const InsideCallback&) = delete;
  InsideCallback& operator=(const InsideCallback&) = delete;

  // The innermost; null: none.
  static const char* name() { return name_; }

 private:
  static inline constinit thread_local const char* name_ = nullptr;
  const char* before_;
};

}  // namespace sk

#endif  // SK_LIB_BASE_INSIDE_CALLBACK_H_
