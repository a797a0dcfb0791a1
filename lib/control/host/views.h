// Messages as the C structs of include/sk/exec.h, and the memory that those point into.
#ifndef SK_LIB_CONTROL_HOST_VIEWS_H_
#define SK_LIB_CONTROL_HOST_VIEWS_H_

#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/control/host/worker.h"
#include "lib/control/message.h"
#include "sk/output.h"

namespace sk::control {

// The last event handed out.
class EventView {
 public:
  void fill(Event event, sk_event* out);

 private:
  void view_errors();

  Event event_;
  std::vector<const char*> traceback_;
  std::vector<const char*> strings_;
  std::vector<sk_mime> mimes_;
  std::vector<sk_rank_time> times_;
  std::vector<std::vector<const char*>> error_lines_;  // One for each of event_.errors.
  std::vector<sk_rank_error> errors_;
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
