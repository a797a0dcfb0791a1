#include "lib/control/host/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <utility>

#include "lib/control/host/clock.h"
#include "lib/control/text.h"
#include "transport/bootstrap/secret.h"
#include "transport/local/fork_server.h"
#include "transport/local/fork_wire.h"

namespace sk::control {
namespace {

constexpr int64_t kLeaveMs = 2'000;

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// A variable that holds an open descriptor; taken out of children's sight.
Result<local::Fd> take_fd(const char* call, const char* variable, std::string_view text) {
  const auto fd = number(text);
  if (!fd || fcntl(*fd, F_SETFD, FD_CLOEXEC) != 0)
    return error(SK_ERR_INVALID_ARGUMENT, "{}: {} is \"{}\", which is no open descriptor", call,
                 variable, text);
  return local::Fd(*fd);
}

uint64_t size_of(const DisplayRecord& display) {
  uint64_t bytes = display.display_id.size() + display.metadata.size();
  for (const Mime& mime : display.mimes) bytes += mime.type.size() + mime.data.size();
  return bytes;
}

}  // namespace

Result<std::unique_ptr<Worker>> Worker::join(const WorkerConfig& config) {
  const char* link_text = std::getenv("SK_WORKER_FD");
  if (link_text == nullptr)
    return error(SK_ERR_INVALID_ARGUMENT,
                 "sk_worker_join: SK_WORKER_FD is not set; a controller starts this program");
  const char* rank_text = std::getenv("RANK");
  const auto rank = number(rank_text == nullptr ? "" : rank_text);
  if (!rank || *rank >= static_cast<int>(kRankCountMax))
    return error(SK_ERR_INVALID_ARGUMENT, "sk_worker_join: RANK is \"{}\", which is no rank",
                 rank_text == nullptr ? "" : rank_text);
  std::unique_ptr<Worker> worker(new Worker(config));
  SK_ASSIGN_OR_RETURN(local::Fd link, take_fd("sk_worker_join", "SK_WORKER_FD", link_text));
  SK_RETURN_IF_ERROR(local::check_peer_is_same_user(link.get()).with_context("sk_worker_join"));
  const char* capture_text = std::getenv("SK_CAPTURE_FDS");
  const std::string_view captures = capture_text == nullptr ? "" : capture_text;
  if (config.capture) {
    const size_t comma = std::min(captures.find(','), captures.size());
    SK_ASSIGN_OR_RETURN(worker->capture_[0],
                        take_fd("sk_worker_join", "SK_CAPTURE_FDS", captures.substr(0, comma)));
    SK_ASSIGN_OR_RETURN(worker->capture_[1],
                        take_fd("sk_worker_join", "SK_CAPTURE_FDS",
                                captures.substr(std::min(comma + 1, captures.size()))));
    // A pipe would make C's stdout wait for 4 KiB; a line is what a reader wants to see.
    setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  }
  unsetenv("SK_WORKER_FD");
  unsetenv("SK_CAPTURE_FDS");
  take_in_job_secret();  // Before any cell can start something that would inherit it.
  SK_ASSIGN_OR_RETURN(worker->link_, local::Link::adopt(std::move(link)));
  SK_ASSIGN_OR_RETURN(worker->io_wakeup_, local::make_wakeup());
  SK_ASSIGN_OR_RETURN(worker->request_wakeup_, local::make_wakeup());
  SK_ASSIGN_OR_RETURN(worker->interrupt_wakeup_, local::make_wakeup());
  SK_ASSIGN_OR_RETURN(worker->input_wakeup_, local::make_wakeup());
  SK_ASSIGN_OR_RETURN(worker->watch_,
                      SharedWatch::make(worker->link_.fd(), worker->request_wakeup_.get(),
                                        worker->capture_[0].get(), worker->capture_[1].get()));
  worker->send(Hello{kProtocolVersion, static_cast<uint32_t>(*rank),
                     static_cast<uint32_t>(getpid()), config.capture, config.language});
  worker->heartbeat_at_ns_ = monotonic_ns() + kHeartbeatNs;
  SK_RETURN_IF_ERROR(worker->probe_.install(config.stacks));
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);  // Inherited by the thread, then taken back.
  worker->io_ = std::thread([raw = worker.get()] { raw->run_io(); });
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  return worker;
}

Result<bool> Worker::serve_template() {
  const char* text = std::getenv("SK_TEMPLATE_FD");
  if (text == nullptr) return false;
  SK_ASSIGN_OR_RETURN(local::Fd socket, take_fd("sk_worker_template", "SK_TEMPLATE_FD", text));
  SK_RETURN_IF_ERROR(
      local::check_peer_is_same_user(socket.get()).with_context("sk_worker_template"));
  unsetenv("SK_TEMPLATE_FD");
  // Not the parent: the process that the controller started may have forked the one that serves.
  SK_ASSIGN_OR_RETURN(const pid_t controller, local::peer_process(socket.get()));
  auto forked = local::serve_forks(std::move(socket), controller);
  if (!forked.ok()) return std::move(forked.status()).with_context("sk_worker_template");
  if (*forked == local::Forked::kNewProcess) return true;
  return error(SK_ERR_PEER_LOST, "sk_worker_template: the controller is gone");
}

Status Worker::note_template(std::string_view text) {
  const auto too_long = [](size_t bytes) {
    return error(SK_ERR_OUT_OF_RANGE,
                 "sk_worker_template_note: {} bytes as UTF-8; at most {} are allowed", bytes,
                 local::kForkNoteMax);
  };
  if (text.size() > local::kForkNoteMax) return too_long(text.size());
  const std::string note = utf8_clean(text);  // A byte that is no text becomes three.
  if (note.size() > local::kForkNoteMax) return too_long(note.size());
  const char* fd_text = std::getenv("SK_TEMPLATE_FD");
  if (fd_text == nullptr) return {};
  SK_ASSIGN_OR_RETURN(local::Fd socket,
                      take_fd("sk_worker_template_note", "SK_TEMPLATE_FD", fd_text));
  const bool sent = local::send_reply(socket.get(), {local::kForkNote, 0, 0, note});
  const int failure = errno;
  (void)socket.release();  // It is there for sk_worker_template().
  if (sent) return {};
  if (failure == EPIPE || failure == ECONNRESET)
    return error(SK_ERR_PEER_LOST, "sk_worker_template_note: the controller is gone");
  errno = failure;
  return system_error("sk_worker_template_note: sendmsg");
}

Worker::~Worker() {
  const Status ignored = leave();
  (void)ignored;
}

// ---- the main thread --------------------------------------------------------------------------

Result<Worker::Request> Worker::next(int64_t timeout_ms) {
  const int64_t until_ns = monotonic_ns() + timeout_ms * 1'000'000;
  // Before the look: what comes after it sets it again.
  if (config_.event_loop) local::clear_wakeup(request_wakeup_.get());
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      waits_ = false;
      if (open_cell_ != 0) {
        stay_readable();
        return error(SK_ERR_INVALID_ARGUMENT,
                     "sk_worker_next: cell {} is still open; call sk_worker_done()", open_cell_);
      }
      if (!requests_.empty()) {
        Request request = std::move(requests_.front());
        requests_.pop_front();
        const auto* execute = std::get_if<Execute>(&request);
        const auto* comm = std::get_if<Comm>(&request);
        if (execute != nullptr && execute->cell == interrupted_early_) {
          refuse_cell(execute->cell, "before the cell began here");
          interrupted_early_ = 0;
          signal_at_ns_ = INT64_MAX;
          continue;
        }
        if (execute != nullptr || comm != nullptr) {
          drain_capture();  // What came between the cells belongs to the last one.
          flush_records();
          open_cell_ = last_cell_ = execute != nullptr ? execute->cell : comm->cell;
          capture_news_ = false;
          began_ns_ = monotonic_ns();
          code_ended_ns_ = 0;
          threads_ = 0;
          cpu_ns_ = process_cpu_ns();
          cancelled_.store(0, std::memory_order_relaxed);
          interrupt_untaken_ = heard_ = false;
          interrupts_ = interrupts_heard_ = 0;
          if (absent_.cell == open_cell_) apply_absent();
        }
        stay_readable();
        return request;
      }
      SK_RETURN_IF_ERROR(check_open());
      if (std::exchange(group_changed_, false)) return Request();
      waits_ = monotonic_ns() < until_ns;
      if (!waits_) return Request();
    }
    // A signal comes back to the language, whose handler wants to run.
    if (!wait_for_request(until_ns)) return Request();
  }
}

// An event loop hears of what is left though nothing new comes.
void Worker::stay_readable() {
  if (config_.event_loop && (!requests_.empty() || group_changed_))
    local::wake(request_wakeup_.get());
}

// False: a signal ended the wait.
bool Worker::wait_for_request(int64_t until_ns) {
  const int64_t left_ms = std::max<int64_t>((until_ns - monotonic_ns() + 999'999) / 1'000'000, 0);
  watch_.come_back();
  const SharedWatch::News news =
      watch_.wait(static_cast<int>(std::min<int64_t>(left_ms, 3'600'000)));
  watch_.leave(kFlushNs);
  if (news.wakeup) local::clear_wakeup(request_wakeup_.get());
  if (news.capture) {
    const std::lock_guard lock(mutex_);
    capture_news_ = true;
    local::wake(io_wakeup_.get());
  }
  read_link();
  if (!news.signal) return true;
  const std::lock_guard lock(mutex_);
  waits_ = false;
  return false;
}

Status Worker::stream(uint32_t stream, std::string_view text) {
  if (text.empty()) return send_captured();
  // In pieces, so that one giant print is bounded by the queue as many small ones are.
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, 256 * 1024);
    SK_RETURN_IF_ERROR(emit({monotonic_ns(), StreamRecord{stream, std::string(piece)}}, 0));
    text.remove_prefix(piece.size());
  }
  return {};
}

Status Worker::display(DisplayRecord display) {
  const uint64_t bytes = size_of(display);
  if (bytes > kDisplayBytesMax)
    return error(SK_ERR_OUT_OF_RANGE, "sk_worker_display: {} bytes; the limit is {}", bytes,
                 kDisplayBytesMax);
  return emit({monotonic_ns(), std::move(display)}, bytes);
}

Status Worker::fail(ErrorRecord error) {
  uint64_t bytes = error.ename.size() + error.evalue.size();
  for (const std::string& line : error.traceback) bytes += line.size();
  if (bytes > kDisplayBytesMax) error.traceback = {"(a traceback of too many bytes)"};
  int64_t ended_ns = 0;
  {
    const std::lock_guard lock(mutex_);
    ended_ns = code_ended_ns_;
  }
  return emit({ended_ns != 0 ? ended_ns : monotonic_ns(), std::move(error)},
              std::min(bytes, kBatchBytes));
}

Status Worker::code_ended() {
  const int64_t now_ns = monotonic_ns();
  const std::lock_guard lock(mutex_);
  if (open_cell_ == 0)
    return error(SK_ERR_INVALID_ARGUMENT, "sk_worker_code_ended: no cell is open");
  code_ended_ns_ = now_ns;
  if (heard_) signal_at_ns_ = INT64_MAX;  // The rest of a row would hit what tells the error.
  // Who interrupted it waits for its end, which comes once the error is written out: that takes
  // many ranks on few cores seconds.
  if (cancelled()) send(sign_of_life());
  return {};
}

Status Worker::threads(uint32_t count) {
  const std::lock_guard lock(mutex_);
  if (open_cell_ == 0) return error(SK_ERR_INVALID_ARGUMENT, "sk_worker_threads: no cell is open");
  threads_ = count;
  return {};
}

Status Worker::done(uint32_t status) {
  fflush(stdout);
  fflush(stderr);
  const int64_t now_ns = monotonic_ns(), cpu_ns = process_cpu_ns();
  const std::lock_guard lock(mutex_);
  if (open_cell_ == 0) return error(SK_ERR_INVALID_ARGUMENT, "sk_worker_done: no cell is open");
  drain_capture();
  queue_records();  // With the end, in one piece.
  Done end{std::exchange(open_cell_, 0), status,           seq_,
           now_ns - began_ns_,           cpu_ns - cpu_ns_, std::exchange(cell_reply_, {})};
  end.lingers = lingers();
  send(end);
  signal_at_ns_ = INT64_MAX;
  refuses_output_ = false;
  if (absent_.cell == end.cell) apply_absent();  // Nothing holds between cells.
  if (input_open_)                               // A thread of the language still waits.
    take_input_reply({input_open_->request, SK_INPUT_REFUSED, "the cell that asked has ended"});
  return check_open();
}

Status Worker::reply(Reply reply) {
  const std::lock_guard lock(mutex_);
  send(reply);
  return check_open();
}

RankGroup Worker::group() const {
  const std::lock_guard lock(mutex_);
  return group_;
}

Status Worker::regroup(uint64_t epoch, int64_t timeout_ms) {
  std::unique_lock lock(mutex_);
  if (group_.epoch != epoch) return check_open();  // The news is on its way, or was told already.
  send(Regroup{epoch, timeout_ms == SK_AFTER_CELL});
  if (timeout_ms == SK_AFTER_CELL) return check_open();
  group_news_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                       [&] { return lost_ || group_.epoch != epoch; });
  return check_open();
}

Status Worker::leave() {
  if (!io_.joinable()) return {};
  fflush(stdout);
  fflush(stderr);
  const int64_t until_ns = monotonic_ns() + kLeaveMs * 1'000'000;
  {
    std::unique_lock lock(mutex_);
    drain_capture();
    flush_records();
    while (!lost_ && link_.queued_bytes() > 0 && monotonic_ns() < until_ns) {
      lock.unlock();
      local::wait_for(link_.fd(), true, 50);
      lock.lock();
      if (link_.open() && !link_.flush()) lose_link();
    }
    leaving_ = true;
  }
  local::wake(io_wakeup_.get());
  io_.join();
  const std::lock_guard lock(mutex_);
  lose_link();  // Other threads' calls that wait end with that.
  link_.close();
  return {};
}

}  // namespace sk::control
