// Where one rank waits for the others.
#ifndef SK_TRANSPORT_BOOTSTRAP_PORT_H_
#define SK_TRANSPORT_BOOTSTRAP_PORT_H_

#include <memory>
#include <vector>

#include "transport/bootstrap/cancel.h"
#include "transport/bootstrap/env.h"
#include "transport/bootstrap/names.h"

namespace sk {

// Listening while it lives. Communicators of one process that are made at the same time take turns.
class Port {
 public:
  // A port that another program holds is waited for, five seconds at most and not past
  // `deadline_ns` on bootstrap_clock_ns(). The sockets do not block.
  static Result<std::unique_ptr<Port>> open(const JobEnv& job, int64_t deadline_ns,
                                            const Cancel& cancel);
  // The Unix sockets of a job on one host: all names that are kFree by `states`, or none where some
  // of these are not any more, which become kDumb: nobody listens where it will not stay.
  static Result<std::unique_ptr<Port>> open_here(const JobEnv& job, std::vector<NameState>& states);
  ~Port();
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  const std::vector<int>& fds() const { return fds_; }

 private:
  Port() = default;
  void give_back();
  std::vector<int> fds_;
  bool has_turn_ = false;
};

}  // namespace sk

#endif  // SK_TRANSPORT_BOOTSTRAP_PORT_H_
