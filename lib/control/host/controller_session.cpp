// The controller's front end: the one it began with, and whoever attaches after that was lost.
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "lib/control/host/clock.h"
#include "lib/control/host/controller_loop.h"

namespace sk::control {
namespace {

// A front end that does not read holds its ranks back instead of filling memory.
constexpr uint64_t kSessionQueueMax = 64ull << 20;

}  // namespace

void ControllerHost::on_session_ready(const local::Poller::Ready& ready) {
  if (!session_.open() || !ready.readable) return;
  std::string bytes;
  const local::ReadResult result = session_.read(bytes);
  session_reader_.feed(bytes);
  while (session_.open()) {
    auto message = session_reader_.next();
    if (!message.ok()) return lose_session();
    if (!message->has_value()) break;
    if (const auto* open = std::get_if<Open>(&**message)) {
      forks_ = open->forks;
      door_.set(open->name, open->token);
    }
    controller_.on_session_message(std::move(**message), monotonic_ns());
  }
  if (result == local::ReadResult::kClosed) lose_session();
}

void ControllerHost::lose_session() {
  if (!session_.open()) return;
  poller_.remove(session_.fd());
  session_.close();
  controller_.on_session_lost(monotonic_ns());
  watch_notebook_server();
}

// Jupyter says in JPY_PARENT_PID which server would start the next front end.
void ControllerHost::watch_notebook_server() {
  const char* text = std::getenv("JPY_PARENT_PID");
  const long pid = text == nullptr ? 0 : std::strtol(text, nullptr, 10);
  if (pid <= 1 || notebook_server_.open()) return;
  notebook_server_.reset(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  const bool watched = notebook_server_.open() &&
                       poller_.add(notebook_server_.get(), token(Source::kNotebookServer, 0)).ok();
  if (!watched && errno == ESRCH) controller_.on_nobody_left(monotonic_ns());
}

void ControllerHost::take_in(local::Link link) {
  session_ = std::move(link);
  session_reader_ = FrameReader();
  session_writing_ = false;
  if (notebook_server_.open()) poller_.remove(notebook_server_.get());
  notebook_server_.reset();
  if (!poller_.add(session_.fd(), token(Source::kSession, 0)).ok()) return lose_session();
  Welcome welcome;
  welcome.ranks = controller_.rank_count();
  welcome.last_cell = controller_.last_cell();
  welcome.pid = static_cast<uint32_t>(getpid());
  send(UINT32_MAX, welcome);
  controller_.on_session_attached(monotonic_ns());
}

void ControllerHost::send_event(const Event& event) {
  if (!session_.open()) return;
  // An event above the limit (64 MiB of one display) cannot happen: records have the same limit.
  const Status status = append_frames(event, session_.outbox());
  if (!status.ok()) lose_session();
}

void ControllerHost::flush_session() {
  if (!session_.open()) return;
  if (!session_.flush()) return lose_session();
  const bool more = session_.queued_bytes() > 0;
  if (more == session_writing_) return;
  session_writing_ = more;
  if (!poller_.watch(session_.fd(), token(Source::kSession, 0), true, more).ok()) lose_session();
}

void ControllerHost::pause_or_resume() {
  const bool pause = session_.open() && session_.queued_bytes() > kSessionQueueMax;
  if (pause == paused_) return;
  paused_ = pause;
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) flush_rank(rank);
}

}  // namespace sk::control
