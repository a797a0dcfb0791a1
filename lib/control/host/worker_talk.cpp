// Input, comms and the snapshot: what a rank says beside its outputs.
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <utility>

#include "lib/control/host/clock.h"
#include "lib/control/host/worker.h"

namespace sk::control {

// ---- input ------------------------------------------------------------------------------------

bool Worker::asks_already(const std::string& prompt, bool password) const {
  return input_open_ && input_open_->prompt == prompt && input_open_->cell == open_cell_ &&
         input_open_->password == password;
}

// Under the mutex. Asks, unless this question is open already.
Status Worker::ask_for_input(std::optional<std::string> prompt, bool password) {
  if (prompt && asks_already(*prompt, password)) return {};
  if (input_open_) {
    input_open_->withdrawn = true;
    send(*input_open_);
    input_open_.reset();
  }
  input_reply_.reset();
  if (!prompt) return {};
  if (prompt->size() > kPromptBytesMax)
    return error(SK_ERR_OUT_OF_RANGE, "sk_worker_input: a prompt of {} bytes; the limit is {}",
                 prompt->size(), kPromptBytesMax);
  drain_capture();
  flush_records();  // What was printed is there before the prompt.
  input_open_ = InputRequest{open_cell_,          ++input_count_,   std::move(*prompt), password,
                             /*withdrawn=*/false, interrupts_heard_};
  send(*input_open_);
  return {};
}

void Worker::take_input_reply(InputReply reply) {
  if (!input_open_ || input_open_->request != reply.request) return;  // Withdrawn meanwhile.
  input_reply_ = std::move(reply);
  local::wake(input_wakeup_.get());
}

// Under the mutex. The cell was interrupted. That the code of the cells is told so here is how it
// hears, unless it takes interrupts over.
Status Worker::end_input() {
  if (input_reply_) input_open_.reset();  // It is answered: nothing to take back.
  SK_RETURN_IF_ERROR(ask_for_input(std::nullopt, false));
  if (!config_.event_loop && is_main()) interrupts_heard_ = interrupts_;
  return error(SK_ERR_ABORTED, "sk_worker_input: the cell was interrupted");
}

Result<std::optional<InputReply>> Worker::input(std::optional<std::string> prompt, bool password,
                                                int64_t timeout_ms) {
  const std::unique_lock only_one(input_mutex_, std::try_to_lock);
  if (!only_one.owns_lock())
    return error(SK_ERR_BUSY, "sk_worker_input: another thread of this rank waits for input");
  const int64_t until_ns = monotonic_ns() + timeout_ms * 1'000'000;
  {
    const std::lock_guard lock(mutex_);
    const bool withdraws = !prompt;
    if (prompt && !asks_already(*prompt, password) && interrupts_ != interrupts_heard_) {
      const bool gets_signals = config_.sigint && !config_.event_loop && is_main();
      const Status ended = end_input();
      // One may wait to be looked at. If none does it has been, and what asks, when it comes again,
      // is what the cell does about the interrupt.
      if (ended.code() != SK_ERR_ABORTED || !gets_signals) return ended.clone();
      return std::optional<InputReply>();
    }
    SK_RETURN_IF_ERROR(ask_for_input(std::move(prompt), password));
    if (withdraws) return std::optional<InputReply>();
  }
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      local::clear_wakeup(input_wakeup_.get());
      // Before the answer, which may be the controller's no to what was asked after the interrupt.
      if (input_open_->cell == open_cell_ && input_open_->interrupts != interrupts_)
        return end_input();
      if (input_reply_) {
        input_open_.reset();
        return std::exchange(input_reply_, std::nullopt);
      }
      SK_RETURN_IF_ERROR(check_open());
    }
    const int64_t left_ms = (until_ns - monotonic_ns() + 999'999) / 1'000'000;
    if (left_ms <= 0) return std::optional<InputReply>();
    pollfd entry{input_wakeup_.get(), POLLIN, 0};
    // EINTR comes back to the language, whose handler wants to run.
    if (::poll(&entry, 1, static_cast<int>(std::min<int64_t>(left_ms, 3'600'000))) < 0)
      return std::optional<InputReply>();
  }
}

// ---- comms, the cell's answer, the snapshot ---------------------------------------------------

Status Worker::comm(Comm message) {
  std::unique_lock lock(mutex_);
  SK_RETURN_IF_ERROR(wait_for_room(lock));
  drain_capture();
  flush_records();
  message.cell = cell_of_output();
  send(message);
  return check_open();
}

Status Worker::cell_reply(std::string json) {
  const std::lock_guard lock(mutex_);
  if (open_cell_ == 0)
    return error(SK_ERR_INVALID_ARGUMENT, "sk_worker_cell_reply: no cell is open");
  cell_reply_ = std::move(json);
  return {};
}

Status Worker::snapshot(const std::string& root, std::vector<Snapshot::Name> names) {
  const std::lock_guard lock(mutex_);
  return snapshot_.set(root, std::move(names));
}

}  // namespace sk::control
