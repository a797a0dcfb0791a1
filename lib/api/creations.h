// Creations of communicators that are under way, so that an interrupt or a rank's death ends them.
#ifndef SK_LIB_API_CREATIONS_H_
#define SK_LIB_API_CREATIONS_H_

#include <memory>

#include "lib/base/status.h"
#include "transport/bootstrap/cancel.h"

namespace sk::api {

// One, from construction to end.
class Creation {
 public:
  // `spans_job`: over the ranks that the launcher's environment names.
  Creation(std::shared_ptr<Cancel> cancel, bool spans_job);
  ~Creation();
  Creation(const Creation&) = delete;
  Creation& operator=(const Creation&) = delete;

  const std::shared_ptr<Cancel>& cancel() const { return cancel_; }
  bool spans_job() const { return spans_job_; }

 private:
  const std::shared_ptr<Cancel> cancel_;
  const bool spans_job_;
};

// Those under way end with `why`: all, or those over the job's ranks. Any thread; does not wait.
void end_creations(const Status& why, bool of_the_job_only);

}  // namespace sk::api

#endif  // SK_LIB_API_CREATIONS_H_
