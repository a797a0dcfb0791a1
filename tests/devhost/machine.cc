#include "tests/devhost/machine.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>

namespace sk::devhost {
namespace {

thread_local Warp* t_warp = nullptr;

// The copy engine: a thread that does groups of copies whenever it likes, and at the latest when
// somebody waits for one.
class Engine {
 public:
  static Engine& get() {
    static Engine engine;
    return engine;
  }

  void begin(std::shared_ptr<CopyGroup> group) {
    const std::lock_guard lock(mutex_);
    groups_.push_back(std::move(group));
    work_.notify_one();
  }

  void wait(CopyGroup& group) {
    if (group.done.load(std::memory_order_acquire)) return;
    {
      const std::lock_guard lock(mutex_);
      group.wanted.store(true, std::memory_order_relaxed);
      work_.notify_one();
    }
    group.done.wait(false, std::memory_order_acquire);
  }

 private:
  Engine() : thread_([this] { run(); }) {}
  ~Engine() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
      work_.notify_one();
    }
    thread_.join();
  }

  // A wanted group, now and then any; null: none is wanted.
  std::shared_ptr<CopyGroup> pick() {
    if (groups_.empty()) return nullptr;
    size_t at = random_() % groups_.size();
    if (random_() % 4 != 0) {
      const auto wanted = std::find_if(groups_.begin(), groups_.end(), [](const auto& group) {
        return group->wanted.load(std::memory_order_relaxed);
      });
      if (wanted == groups_.end()) return nullptr;
      at = size_t(wanted - groups_.begin());
    }
    std::shared_ptr<CopyGroup> picked = std::move(groups_[at]);
    groups_.erase(groups_.begin() + int64_t(at));
    return picked;
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (!over_) {
      const std::shared_ptr<CopyGroup> group = pick();
      if (group == nullptr) {
        work_.wait(lock);
        continue;
      }
      lock.unlock();
      std::shuffle(group->copies.begin(), group->copies.end(), random_);
      for (const Copy& copy : group->copies) {
        if (copy.bytes > 0) std::memcpy(copy.to, copy.from, copy.bytes);
        std::memset(copy.to + copy.bytes, 0, copy.size - copy.bytes);
      }
      group->done.store(true, std::memory_order_release);
      group->done.notify_all();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable work_;
  std::vector<std::shared_ptr<CopyGroup>> groups_;
  std::mt19937_64 random_{1};
  bool over_ = false;
  std::thread thread_;
};

}  // namespace

void Rendezvous::meet(uint32_t count) {
  const uint32_t generation = generation_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == count) {
    arrived_.store(0, std::memory_order_relaxed);
    generation_.store(generation + 1, std::memory_order_release);
    generation_.notify_all();
    return;
  }
  generation_.wait(generation, std::memory_order_acquire);
}

Warp& this_warp() { return *t_warp; }

void commit_copies() {
  Warp& warp = this_warp();
  auto group = std::make_shared<CopyGroup>();
  group->copies = std::move(warp.begun);
  warp.begun.clear();
  // What is read before it has been waited for shall be seen.
  for (const Copy& copy : group->copies) std::memset(copy.to, 0xa5, copy.size);
  if (group->copies.empty())
    group->done.store(true, std::memory_order_relaxed);
  else
    Engine::get().begin(group);
  warp.groups.push_back(std::move(group));
}

void wait_copies(uint32_t pending) {
  std::vector<std::shared_ptr<CopyGroup>>& groups = this_warp().groups;
  while (groups.size() > pending) {
    Engine::get().wait(*groups.front());
    groups.erase(groups.begin());
  }
}

void launch(uint32_t blocks, uint32_t threads, size_t shared_bytes,
            const std::function<void()>& kernel) {
  constexpr size_t kAlign = 1024;
  std::vector<std::unique_ptr<Block>> all;
  std::vector<std::vector<std::byte>> shared;
  std::vector<std::thread> warps;
  for (uint32_t index = 0; index < blocks; ++index) {
    shared.emplace_back(shared_bytes + kAlign, std::byte{0xcd});
    const auto begin = reinterpret_cast<uintptr_t>(shared.back().data());
    all.push_back(std::make_unique<Block>());
    all.back()->index = index;
    all.back()->shared = reinterpret_cast<std::byte*>((begin + kAlign - 1) / kAlign * kAlign);
    all.back()->warps = threads / kLanes;
  }
  for (const std::unique_ptr<Block>& block : all) {
    for (uint32_t index = 0; index < block->warps; ++index) {
      warps.emplace_back([&kernel, block = block.get(), index] {
        Warp warp{block, index, {}, {}};
        t_warp = &warp;
        kernel();
        wait_copies(0);
        t_warp = nullptr;
      });
    }
  }
  for (std::thread& warp : warps) warp.join();
}

}  // namespace sk::devhost
