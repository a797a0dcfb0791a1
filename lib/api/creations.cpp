#include "lib/api/creations.h"

#include <mutex>
#include <set>
#include <utility>

#include "lib/base/fork_lock.h"
#include "lib/base/lasting.h"

namespace sk::api {
namespace {

// With the lock held only.
std::set<const Creation*>& under_way() {
  static Lasting<std::set<const Creation*>> instance;
  return *instance;
}
// Those of other threads are not a forked child's.
ForkLock under_way_lock{[] { under_way().clear(); }};

}  // namespace

Creation::Creation(std::shared_ptr<Cancel> cancel, bool spans_job)
    : cancel_(std::move(cancel)), spans_job_(spans_job) {
  const std::lock_guard lock(under_way_lock);
  under_way().insert(this);
}

Creation::~Creation() {
  const std::lock_guard lock(under_way_lock);
  under_way().erase(this);
}

void end_creations(const Status& why, bool of_the_job_only) {
  const std::lock_guard lock(under_way_lock);
  for (const Creation* creation : under_way())
    if (creation->spans_job() || !of_the_job_only) creation->cancel()->request(why);
}

}  // namespace sk::api
