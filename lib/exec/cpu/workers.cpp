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
  for (Thread& each : threads_) {
    each.bell.fetch_add(1, std::memory_order_seq_cst);
    each.bell.notify_one();
  }
  for (Thread& each : threads_) each.thread.join();
}

Status Workers::start(uint32_t active) {
  while (threads_.size() + 1 < active) {
    const uint32_t worker = uint32_t(threads_.size()) + 1;
    Thread& made = threads_.emplace_back();
    try {
      made.thread = std::thread([this, &made, worker] { loop(made, worker); });
    } catch (const std::system_error& thrown) {
      threads_.pop_back();
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
  running_.store(active - 1, std::memory_order_relaxed);
  for (uint32_t worker = 1; worker < active; ++worker) {
    // Not a load and a store, though nobody else writes it: notify_one() looks whether anybody
    // sleeps, and a look ahead of the store would miss who has just looked at the bell.
    std::atomic<uint32_t>& bell = threads_[worker - 1].bell;
    bell.fetch_add(1, std::memory_order_seq_cst);
    bell.notify_one();
  }
  body(object, 0);
}

void Workers::loop(Thread& thread, uint32_t worker) {
  for (uint32_t seen = 0;; ++seen) {
    for (int i = 0; i < kSpins && thread.bell.load(std::memory_order_acquire) == seen; ++i) pause();
    thread.bell.wait(seen, std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    body_(object_, worker);
    if (running_.fetch_sub(1, std::memory_order_seq_cst) == 1 && ended_ != nullptr)
      ended_(ended_object_);
  }
}

}  // namespace sk::cpu
