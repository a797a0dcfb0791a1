// Whether this thread is inside a user's tile, and so inside a call that is not over: it must not
// wait for that call's end.
#ifndef SK_LIB_BASE_INSIDE_TILE_H_
#define SK_LIB_BASE_INSIDE_TILE_H_

namespace sk {

class InsideTile {
 public:
  InsideTile() { ++depth_; }
  ~InsideTile() { --depth_; }
  InsideTile(const InsideTile&) = delete;
  InsideTile& operator=(const InsideTile&) = delete;

  static bool is() { return depth_ != 0; }

 private:
  static inline thread_local int depth_ = 0;
};

}  // namespace sk

#endif  // SK_LIB_BASE_INSIDE_TILE_H_
