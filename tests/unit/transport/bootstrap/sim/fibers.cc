#include "tests/unit/transport/bootstrap/sim/fibers.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace sk::sim {
namespace {

Fibers* of_running_fiber = nullptr;

void start_switch([[maybe_unused]] void** save, [[maybe_unused]] const void* bottom,
                  [[maybe_unused]] size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(save, bottom, bytes);
#endif
}

void finish_switch([[maybe_unused]] void* saved, [[maybe_unused]] const void** bottom,
                   [[maybe_unused]] size_t* bytes) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(saved, bottom, bytes);
#endif
}

}  // namespace

Stacks& Stacks::get() {
  static auto* const instance = new Stacks;
  return *instance;
}

std::byte* Stacks::take() {
  if (!free_.empty()) {
    std::byte* const stack = free_.back();
    free_.pop_back();
    return stack;
  }
  constexpr size_t kGuard = 4096;
  void* const room = mmap(nullptr, kBytes + kGuard, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED || mprotect(room, kGuard, PROT_NONE) != 0) abort();
  return static_cast<std::byte*>(room) + kGuard;
}

Fibers* Fibers::running() { return of_running_fiber; }

Fibers::~Fibers() {
  // Whoever still waits is unwound, as if it were killed.
  for (size_t i = 0; i < all_.size(); ++i) {
    all_[i]->killed = true;
    if (all_[i]->state == State::kWaits) enter(i);
    if (all_[i]->stack != nullptr) Stacks::get().give(all_[i]->stack);
  }
}

void Fibers::at(int64_t when_ns, std::function<void()> what) {
  events_.push({std::max(when_ns, now_ns_), orders_++, std::move(what)});
}

size_t Fibers::spawn(int64_t when_ns, std::function<void()> body) {
  const size_t fiber = all_.size();
  all_.push_back(std::make_unique<Fiber>());
  all_[fiber]->body = std::move(body);
  at(when_ns, [this, fiber] { go_on(fiber, 0); });
  return fiber;
}

void Fibers::run(int64_t limit_ns) {
  while (!events_.empty() && events_.top().when_ns <= limit_ns && happened_ < kHappensMost) {
    now_ns_ = events_.top().when_ns;
    std::function<void()> what = std::move(const_cast<Event&>(events_.top()).what);
    events_.pop();
    ++happened_;
    what();
  }
}

void Fibers::kill(size_t fiber) {
  Fiber& it = *all_[fiber];
  if (it.killed || it.state == State::kEnded) return;
  it.killed = true;
  it.stopped_until_ns = 0;
  if (it.state == State::kNotBegun) it.state = State::kEnded;
  wake(fiber);
}

void Fibers::wake(size_t fiber) {
  const Fiber& it = *all_[fiber];
  if (it.state != State::kWaits) return;
  at(now_ns_, [this, fiber, wait = it.waits] { go_on(fiber, wait); });
}

void Fibers::go_on(size_t fiber, uint64_t wait) {
  Fiber& it = *all_[fiber];
  if (it.state == State::kEnded || it.waits != wait) return;
  if (it.stopped_until_ns > now_ns_) {
    at(it.stopped_until_ns, [this, fiber, wait] { go_on(fiber, wait); });
    return;
  }
  if (it.state == State::kNotBegun) {
    it.stack = Stacks::get().take();
    getcontext(&it.context);
    it.context.uc_stack.ss_sp = it.stack;
    it.context.uc_stack.ss_size = Stacks::kBytes;
    it.context.uc_link = nullptr;
    makecontext(&it.context, &Fibers::begin, 0);
  }
  enter(fiber);
}

void Fibers::enter(size_t fiber) {
  Fiber& it = *all_[fiber];
  it.state = State::kRuns;
  ++it.waits;
  running_fiber_ = fiber;
  of_running_fiber = this;
  start_switch(&outside_fake_stack_, it.stack, Stacks::kBytes);
  swapcontext(&outside_, &it.context);
  finish_switch(outside_fake_stack_, nullptr, nullptr);
  of_running_fiber = nullptr;
  running_fiber_ = SIZE_MAX;
}

void Fibers::leave(bool for_good) {
  Fiber& it = *all_[running_fiber_];
  start_switch(for_good ? nullptr : &it.fake_stack, outside_stack_, outside_bytes_);
  swapcontext(&it.context, &outside_);
  finish_switch(it.fake_stack, &outside_stack_, &outside_bytes_);
}

void Fibers::begin() {
  Fibers& fibers = *of_running_fiber;
  finish_switch(nullptr, &fibers.outside_stack_, &fibers.outside_bytes_);
  Fiber& it = *fibers.all_[fibers.running_fiber_];
  try {
    it.body();
  } catch (const Killed&) {
    it.killed = true;
  }
  it.state = State::kEnded;
  fibers.leave(true);
  abort();  // Nobody enters one that has ended.
}

void Fibers::wait(int64_t until_ns) {
  wait_or_die_later(until_ns);
  if (all_[running_fiber_]->killed) throw Killed();
}

void Fibers::wait_or_die_later(int64_t until_ns) {
  Fiber& it = *all_[running_fiber_];
  if (it.killed) return;
  it.state = State::kWaits;
  if (until_ns != INT64_MAX)
    at(until_ns, [this, fiber = running_fiber_, wait = it.waits] { go_on(fiber, wait); });
  leave(false);
}

void Fibers::pause(int64_t ns) {
  for (const int64_t until_ns = now_ns_ + ns; now_ns_ < until_ns;) wait(until_ns);
}

}  // namespace sk::sim
