#include "lib/exec/cpu/workers.h"

#include <algorithm>
#include <mutex>
#include <system_error>

#include "lib/exec/cpu/waiter.h"

namespace sk::cpu {
namespace {

constexpr int kSpins = 2000;  // Runs come in quick succession: look a few us before sleeping.

}  // namespace

Workers::~Workers() {
  stop_.store(true, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Status Workers::start(uint32_t active) {
  while (threads_.size() + 1 < active) {
    const uint32_t worker = uint32_t(threads_.size()) + 1;
    try {
      // Rounds of before it was there are not its own.
      threads_.emplace_back(
          [this, worker, seen = round_.load(std::memory_order_relaxed)] { loop(worker, seen); });
    } catch (const std::system_error& thrown) {
      return error(SK_ERR_NO_MEMORY, "worker {} of {} could not be started: {}", worker, active,
                   thrown.what());
    }
  }
  return {};
}

Status Workers::reserve(Status (*reserve)(), uint32_t active) {
  auto known = std::find_if(reserved_.begin(), reserved_.end(),
                            [&](const Reserved& each) { return each.reserve == reserve; });
  if (known == reserved_.end()) known = reserved_.insert(known, {reserve, 1});
  if (active <= known->workers) return {};
  struct Reservation {
    Status (*reserve)();
    std::mutex mutex;
    Status status;
  } reservation{reserve, {}, {}};
  const Body body = [](void* object, uint32_t worker) noexcept {
    if (worker == 0) return;
    auto& shared = *static_cast<Reservation*>(object);
    Status status = caught([&] { return shared.reserve(); });
    if (status.ok()) return;
    const std::lock_guard lock(shared.mutex);
    shared.status = std::move(status);
  };
  run(active, body, &reservation);
  while (!finished()) std::this_thread::yield();  // For one allocation each, which never waits.
  if (reservation.status.ok()) known->workers = active;
  return std::move(reservation.status);
}

void Workers::run(uint32_t active, Body body, void* object) {
  body_ = body;
  object_ = object;
  active_ = active;
  running_.store(uint32_t(threads_.size()), std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  body(object, 0);
}

void Workers::loop(uint32_t worker, uint32_t seen) {
  for (;;) {
    for (int i = 0; i < kSpins && round_.load(std::memory_order_acquire) == seen; ++i) pause();
    round_.wait(seen, std::memory_order_acquire);
    seen = round_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    if (worker < active_) body_(object_, worker);
    running_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace sk::cpu
