#include "lib/api/creations.h"

#include <mutex>
#include <set>
#include <utility>

#include "lib/base/lasting.h"

namespace sk::api {
namespace {

struct Table {
  std::mutex mutex;
  std::set<const Creation*> under_way;
};

Table& table() {
  static Lasting<Table> instance;
  return *instance;
}

}  // namespace

Creation::Creation(std::shared_ptr<Cancel> cancel, bool spans_job)
    : cancel_(std::move(cancel)), spans_job_(spans_job) {
  const std::lock_guard lock(table().mutex);
  table().under_way.insert(this);
}

Creation::~Creation() {
  const std::lock_guard lock(table().mutex);
  table().under_way.erase(this);
}

void end_creations(const Status& why, bool of_the_job_only) {
  const std::lock_guard lock(table().mutex);
  for (const Creation* creation : table().under_way)
    if (creation->spans_job() || !of_the_job_only) creation->cancel()->request(why);
}

}  // namespace sk::api
