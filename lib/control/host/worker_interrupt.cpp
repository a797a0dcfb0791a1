// Interrupts of a rank: who is told, by what, and when.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "lib/control/host/clock.h"
#include "lib/control/host/facts.h"
#include "lib/control/host/worker.h"

namespace sk::control {
namespace {

// A language that ends its collective itself, on the signal, tells an interrupt from a lost peer.
constexpr int64_t kSignalFirstNs = 50'000'000;
// A language's event loop that turns answers an interrupt within this time,
constexpr int64_t kLoopAnswersNs = 300'000'000;
// unless its thread gets no processor; then it is looked at again.
constexpr int64_t kLookAgainNs = 50'000'000;
constexpr int64_t kRanNs = 1'000'000;
// A language that never looks at signals throws at once when they come in a row: Julia at the
// fourth within a second.
constexpr uint32_t kRow = 6;
constexpr int64_t kRowStepNs = 100'000'000;

}  // namespace

// Under the mutex, which done() takes too: after it no signal of this cell is sent.
void Worker::interrupt(const Interrupt& interrupt) {
  const auto queued = std::find_if(requests_.begin(), requests_.end(), [&](const Request& request) {
    const auto* execute = std::get_if<Execute>(&request);
    return execute != nullptr && execute->cell == interrupt.cell;
  });
  if (queued != requests_.end() && waits_) {  // It has not even begun.
    requests_.erase(queued);
    return refuse_cell(interrupt.cell, "");
  }
  // What an earlier cell has left behind keeps the main thread from this one, say a task of a loop:
  // it is that which is to end. The cell is refused when the thread comes for it, and not before,
  // or the rank would pass for idle.
  if (queued != requests_.end())
    interrupted_early_ = interrupt.cell;
  else if (open_cell_ == 0 || open_cell_ != interrupt.cell || (interrupt.level == 1 && heard_))
    return;
  else if (interrupt.level == 1 && probe_.wake_main())
    return;  // It finds its signal where it had just begun to wait; a second would be another.
  else
    cancelled_.store(kCancelled, std::memory_order_relaxed);
  if (interrupt.level != 1 && open_cell_ == interrupt.cell) refuses_output_ = true;
  if (collectives() != nullptr) collectives()->mark();
  heard_ = false;
  if (interrupt.level != 1) ++interrupts_;
  space_.notify_all();
  local::wake(input_wakeup_.get());
  if (config_.event_loop) {
    interrupt_untaken_ = true;
    local::wake(interrupt_wakeup_.get());
    main_cpu_ns_ = thread_cpu_ns(main_);
    if (config_.sigint) signal_at_ns_ = std::min(signal_at_ns_, monotonic_ns() + kLoopAnswersNs);
    signals_left_ = interrupt.level == 2 ? kRow : 1;
  } else if (config_.sigint) {
    signal_main();
  }
  end_collectives_at_ns_ = monotonic_ns() + kSignalFirstNs;
}

void Worker::refuse_cell(uint64_t cell, std::string why) {
  last_cell_ = cell;
  const std::string line = why.empty() ? "KeyboardInterrupt" : "KeyboardInterrupt: " + why;
  pending_.push_back(
      {monotonic_ns(),
       ErrorRecord{"KeyboardInterrupt", std::move(why), {line}, SK_ERROR_INTERRUPT}});
  flush_records();
  send(Done{cell, SK_CELL_ERROR, seq_});
}

// The group, as a terminal does, so that children that the cell waits for end too; the kernel
// gives a process's signal to its main thread unless that blocks it.
void Worker::signal_main() {
  if (getpgrp() == getpid())
    ::kill(0, SIGINT);
  else
    pthread_kill(main_, SIGINT);
}

// The main thread did not come to its event loop: code of the language keeps it, which the signal
// ends. Unless it gets no processor: in its loop the signal might end the process.
void Worker::signal_late(int64_t now_ns) {
  // Of a row the rest is for a language that does not look.
  if (heard_ && config_.signal_waits != nullptr && *config_.signal_waits == 0) {
    signal_at_ns_ = INT64_MAX;
    return;
  }
  const int64_t cpu_ns = thread_cpu_ns(main_);
  const bool ran = cpu_ns - std::exchange(main_cpu_ns_, cpu_ns) > kRanNs;
  if (!ran && own_thread_state(main_tid_) == 'R') {
    signal_at_ns_ = now_ns + kLookAgainNs;
    return;
  }
  signal_at_ns_ = --signals_left_ > 0 ? now_ns + kRowStepNs : INT64_MAX;
  // It comes when the language looks at signals, be that late: a second would be another interrupt.
  heard_ = true;
  cancelled_.store(kSignalled, std::memory_order_relaxed);
  ::kill(getpid(), SIGINT);  // Whichever thread the language takes it with.
}

Result<std::pair<int, int>> Worker::event_fds() const {
  if (!config_.event_loop)
    return error(SK_ERR_INVALID_ARGUMENT, "joined without SK_WORKER_EVENT_LOOP");
  return std::pair(request_wakeup_.get(), interrupt_wakeup_.get());
}

Result<uint64_t> Worker::interrupted() {
  if (!config_.event_loop)
    return error(SK_ERR_INVALID_ARGUMENT, "joined without SK_WORKER_EVENT_LOOP");
  const std::lock_guard lock(mutex_);
  local::clear_wakeup(interrupt_wakeup_.get());
  signal_at_ns_ = INT64_MAX;
  refuses_output_ = false;
  if (!std::exchange(interrupt_untaken_, false) || !cancelled()) return 0;
  heard_ = true;
  interrupts_heard_ = interrupts_;
  return open_cell_;
}

}  // namespace sk::control
