// Calls kept ready.
#ifndef LIBSK_PYTHON_READY_H_
#define LIBSK_PYTHON_READY_H_

#include <memory>

#include "bindings.h"
#include "ends.h"
#include "sk/call.h"

namespace sk::python {

class Ready {
 public:
  // `args`: the operation's struct, whose memory Python keeps as long as this.
  Ready(CommHandle& comm, int32_t op, const void* args);
  void run(int64_t timeout_ms);
  void close();

 private:
  struct Free {
    void operator()(sk_op* op) const {
      (void)Ends::now_or_later([op] { return sk_op_free(op); });
    }
  };
  CommHandle& comm_;  // Kept by nb::keep_alive.
  std::unique_ptr<sk_op, Free> op_;
  bool inside_ = false;  // A run is. Runs are one at a time, as calls of the communicator.
};

}  // namespace sk::python

#endif  // LIBSK_PYTHON_READY_H_
