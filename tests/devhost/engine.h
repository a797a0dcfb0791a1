// What a GPU does beside its threads: copies and products that are begun, and are done later by
// somebody else, in any order that the hardware allows.
#ifndef SK_TESTS_DEVHOST_ENGINE_H_
#define SK_TESTS_DEVHOST_ENGINE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace sk::devhost {

struct Job {
  std::function<void()> work;
  uint64_t chain;  // Jobs of one chain are done in the order in which they were begun; 0: any.
  std::atomic<uint32_t> done{0};  // A word that the kernel can wait for: no lost wake-ups.
  std::atomic<bool> wanted{false};
};

class Engine {
 public:
  static Engine& get();

  // As of another proxy: what the caller wrote before is not ordered before `work`, as
  // ThreadSanitizer sees it, unless it has called fence_async_proxy(). So `work` holds by value all
  // that it needs beside the machine's memory.
  std::shared_ptr<Job> begin_in_async_proxy(std::function<void()> work, uint64_t chain = 0);
  // What the caller has seen, `work` sees too.
  std::shared_ptr<Job> begin(std::function<void()> work, uint64_t chain = 0);

  void wait(Job& job);
  // Until all is done that was begun before.
  void settle();
  void fence_async_proxy() { fences_.fetch_add(1, std::memory_order_release); }

 private:
  Engine() : thread_([this] { run(); }) {}
  ~Engine();
  void add(std::shared_ptr<Job> job);
  std::shared_ptr<Job> pick();
  void run();

  std::mutex mutex_;
  std::condition_variable some_;
  std::vector<std::shared_ptr<Job>> jobs_;
  std::shared_ptr<Job> current_;
  std::mt19937_64 random_{1};
  bool over_ = false;
  std::atomic<uint64_t> fences_{0};
  std::thread thread_;
};

}  // namespace sk::devhost

#endif  // SK_TESTS_DEVHOST_ENGINE_H_
