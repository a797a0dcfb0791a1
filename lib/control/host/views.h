// Messages as the C structs of include/sk/exec.h, and the memory that those point into.
#ifndef SK_LIB_CONTROL_HOST_VIEWS_H_
#define SK_LIB_CONTROL_HOST_VIEWS_H_

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/control/host/worker.h"
#include "lib/control/message.h"
#include "sk/output.h"

namespace sk::control {

// Copies `from` into a caller's struct of `size` bytes, which may be of another release: what the
// caller does not know is left out. Both start with struct_size, which keeps the caller's value.
void copy_struct(const void* from, size_t from_size, void* to, uint32_t size);

// The last event handed out.
class EventView {
 public:
  void fill(Event event, sk_event* out);

 private:
  Event event_;
  std::vector<const char*> traceback_;
  std::vector<const char*> strings_;
  std::vector<sk_mime> mimes_;
  std::vector<sk_rank_time> times_;
};

// The last request handed out.
class RequestView {
 public:
  void fill(Worker::Request request, sk_request* out);

 private:
  Worker::Request request_;
  std::vector<sk_mime> buffers_;
};

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_HOST_VIEWS_H_
