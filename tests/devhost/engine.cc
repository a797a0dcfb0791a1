#include "tests/devhost/engine.h"

#include <algorithm>
#include <chrono>

#if defined(__SANITIZE_THREAD__)
extern "C" {
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif

namespace sk::devhost {
namespace {

// In its life the sanitizer sees neither what this thread synchronises nor what it reads and
// writes.
class Unseen {
 public:
  Unseen() {
#if defined(__SANITIZE_THREAD__)
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
#endif
  }
  ~Unseen() {
#if defined(__SANITIZE_THREAD__)
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
#endif
  }
};

}  // namespace

Engine& Engine::get() {
  static Engine engine;
  return engine;
}

Engine::~Engine() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    some_.notify_one();
  }
  thread_.join();
}

void Engine::add(std::shared_ptr<Job> job) {
  const Unseen unseen;
  const std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
  some_.notify_one();
}

std::shared_ptr<Job> Engine::begin(std::function<void()> work, uint64_t chain) {
  auto seen = std::make_shared<std::atomic<bool>>(false);
  auto job = std::make_shared<Job>();
  job->work = [seen, work = std::move(work)] {
    seen->load(std::memory_order_acquire);
    work();
  };
  job->chain = chain;
  seen->store(true, std::memory_order_release);
  add(job);
  return job;
}

std::shared_ptr<Job> Engine::begin_in_async_proxy(std::function<void()> work, uint64_t chain) {
  const Unseen unseen;  // Also that this thread has allocated it.
  auto job = std::make_shared<Job>();
  job->work = [this, work = std::move(work)] {
    fences_.load(std::memory_order_acquire);
    work();
  };
  job->chain = chain;
  add(job);
  return job;
}

void Engine::wait(Job& job) {
  if (job.done.load(std::memory_order_acquire) == 0) {
    {
      const Unseen unseen;
      const std::lock_guard lock(mutex_);
      job.wanted.store(true, std::memory_order_relaxed);
      some_.notify_one();
    }
    job.done.wait(0, std::memory_order_acquire);
  }
}

void Engine::settle() {
  std::vector<std::shared_ptr<Job>> begun;
  {
    const Unseen unseen;
    const std::lock_guard lock(mutex_);
    begun = jobs_;
    if (current_ != nullptr) begun.push_back(current_);
  }
  for (const std::shared_ptr<Job>& job : begun) wait(*job);
}

// Of the jobs that may be done now one that is wanted, or any: now and then, and when none is.
std::shared_ptr<Job> Engine::pick() {
  std::vector<size_t> able, wanted;
  for (size_t i = 0; i < jobs_.size(); ++i) {
    uint64_t chain = jobs_[i]->chain;
    const auto same = [&](const auto& job) { return chain != 0 && job->chain == chain; };
    if (std::any_of(jobs_.begin(), jobs_.begin() + int64_t(i), same)) continue;
    able.push_back(i);
    const bool is_wanted = std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& job) {
      return (job == jobs_[i] || same(job)) && job->wanted.load(std::memory_order_relaxed);
    });
    if (is_wanted) wanted.push_back(i);
  }
  const std::vector<size_t>& from = wanted.empty() || random_() % 4 == 0 ? able : wanted;
  const size_t at = from[random_() % from.size()];
  std::shared_ptr<Job> picked = std::move(jobs_[at]);
  jobs_.erase(jobs_.begin() + int64_t(at));
  return picked;
}

void Engine::run() {
  for (;;) {
    std::shared_ptr<Job> job;
    std::function<void()> work;
    {
      const Unseen unseen;
      std::unique_lock lock(mutex_);
      some_.wait(lock, [&] { return over_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      if (random_() % 8 == 0) {
        // Late: unless somebody wants something, others may get ahead first.
        some_.wait_for(lock, std::chrono::microseconds(random_() % 200), [&] {
          return std::any_of(jobs_.begin(), jobs_.end(), [](const auto& each) {
            return each->wanted.load(std::memory_order_relaxed);
          });
        });
      }
      job = pick();
      current_ = job;
      work = job->work;  // A copy is this thread's own, whoever made the original.
    }
    work();
    job->done.store(1, std::memory_order_release);
    job->done.notify_all();
    {
      const Unseen unseen;
      work = nullptr;
      const std::lock_guard lock(mutex_);
      current_.reset();
    }
    job.reset();  // Seen: whoever lets go of it last frees it after all that this thread did to it.
  }
}

}  // namespace sk::devhost
