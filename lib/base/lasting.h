// Objects of static storage that are never destroyed: calls and threads may come during exit.
//
// Their memory is the library's own, so that unloading it takes them along; what they hold
// themselves (nodes of a map) must be gone by then.
#ifndef SK_LIB_BASE_LASTING_H_
#define SK_LIB_BASE_LASTING_H_

#include <cstddef>
#include <new>
#include <utility>

namespace sk {

template <typename T>
class Lasting {
 public:
  template <typename... Args>
  explicit Lasting(Args&&... args) {
    new (room_) T(std::forward<Args>(args)...);
  }
  Lasting(const Lasting&) = delete;
  Lasting& operator=(const Lasting&) = delete;
  T& operator*() { return *std::launder(reinterpret_cast<T*>(room_)); }

 private:
  alignas(T) std::byte room_[sizeof(T)];
};

}  // namespace sk

#endif  // SK_LIB_BASE_LASTING_H_
