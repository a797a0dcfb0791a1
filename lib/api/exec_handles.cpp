#include "lib/api/exec_handles.h"

#include <mutex>
#include <set>

namespace sk::api {
namespace {

class Handles {
 public:
  void add(const void* handle) {
    const std::lock_guard lock(mutex_);
    alive_.insert(handle);
  }
  bool remove(const void* handle) {
    const std::lock_guard lock(mutex_);
    return alive_.erase(handle) != 0;
  }
  bool has(const void* handle) {
    const std::lock_guard lock(mutex_);
    return alive_.contains(handle);
  }

 private:
  std::mutex mutex_;
  std::set<const void*> alive_;
};

Handles& handles() {
  static Handles* const all = new Handles;  // Never destroyed: calls may come during exit.
  return *all;
}

}  // namespace

void add_handle(const void* handle) { handles().add(handle); }
bool remove_handle(const void* handle) { return handles().remove(handle); }
bool has_handle(const void* handle) { return handles().has(handle); }

Status check_size(const char* call, const char* name, const uint32_t* size) {
  SK_RETURN_IF_ERROR(check_out(call, name, size));
  if (*size >= 8 && *size <= 4096) return {};
  return error(SK_ERR_INVALID_ARGUMENT, "{}: {}->struct_size is {}; set it to sizeof of the struct",
               call, name, *size);
}

}  // namespace sk::api
