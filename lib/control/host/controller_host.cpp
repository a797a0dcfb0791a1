// The loop itself, and the ranks' processes, links and pipes.
#include "lib/control/host/controller_host.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "lib/control/host/clock.h"
#include "lib/control/host/controller_loop.h"
#include "lib/control/host/worker.h"
#include "lib/record/ended.h"

namespace sk::control {
namespace {

constexpr int64_t kLastFlushNs = 2'000'000'000;
// Ranks that flood their output are read for so long, and each for so much, before the front end,
// which may want to interrupt them, is heard again.
constexpr int64_t kReadTurnNs = 50'000'000;
constexpr size_t kLinkTurnBytes = 64 * 1024;
constexpr int kWorkerFd = 3;  // In the rank: its link, and the read ends of what it captures.
constexpr int kCaptureOut = 4;
constexpr int kCaptureErr = 5;
constexpr int kSecretFd = kRankSecretFd;

}  // namespace

Status ControllerHost::run() {
  SK_RETURN_IF_ERROR(poller_.add(session_.fd(), token(Source::kSession, 0)));
  if (door_.fd() >= 0) SK_RETURN_IF_ERROR(poller_.add(door_.fd(), token(Source::kDoor, 0)));
  send(UINT32_MAX, Welcome{});
  int64_t flush_until_ns = INT64_MAX;
  while (true) {
    const int64_t now = monotonic_ns();
    if (controller_.over()) {
      flush_until_ns = std::min(flush_until_ns, now + kLastFlushNs);
      if (!session_.open() || session_.queued_bytes() == 0 || now >= flush_until_ns) return {};
    }
    const int64_t deadline = std::min(controller_.deadline_ns(), flush_until_ns);
    const int64_t wait_ms = deadline == INT64_MAX
                                ? 3'600'000
                                : std::max<int64_t>(0, (deadline - now + 999'999) / 1'000'000);
    const std::vector<local::Poller::Ready> all_ready = poller_.wait(wait_ms);
    const int64_t woken_ns = monotonic_ns();
    std::vector<uint32_t> speaking;
    for (const auto& ready : all_ready) {
      if (is_from(ready, Source::kLink) && ready.readable) speaking.push_back(rank_of(ready));
      on_ready(ready);
    }
    read_links(std::move(speaking), woken_ns);
    if (!template_.idle()) pump_template();
    const int64_t read_ns = monotonic_ns();
    controller_.agent().was_busy(woken_ns, read_ns);
    controller_.on_time(read_ns);
    flush_session();
    pause_or_resume();
    controller_.agent().was_busy(read_ns, monotonic_ns());
  }
}

void ControllerHost::on_ready(const local::Poller::Ready& ready) {
  const uint32_t rank = rank_of(ready);
  switch (static_cast<Source>(ready.token % kTokenStep)) {
    case Source::kSession:
      return on_session_ready(ready);
    case Source::kLink:
      return ready.writable ? flush_rank(rank) : void();
    case Source::kExit:
      return on_exit(rank);
    case Source::kStdout:
      return read_capture(rank, 0);
    case Source::kStderr:
      return read_capture(rank, 1);
    case Source::kTemplate:
      return pump_template();
    case Source::kDoor:
      return door_.admit();
    case Source::kStranger:
      if (auto link = door_.hear(rank, !session_.open())) take_in(std::move(*link));
      return;
    case Source::kNotebookServer:
      return controller_.on_nobody_left(monotonic_ns());
  }
}

// By turns: those that are left out now come first the next time.
void ControllerHost::read_links(std::vector<uint32_t> ranks, int64_t began_ns) {
  std::sort(ranks.begin(), ranks.end());
  const auto first = std::lower_bound(ranks.begin(), ranks.end(), read_first_);
  const auto start = static_cast<size_t>(first - ranks.begin());
  for (size_t i = 0; i < ranks.size(); ++i) {
    const uint32_t rank = ranks[(start + i) % ranks.size()];
    if (monotonic_ns() - began_ns >= kReadTurnNs && i > 0) {
      read_first_ = rank;
      return;
    }
    if (ranks_[rank] && ranks_[rank]->link.open()) read_link(rank);
  }
}

// ---- ranks ------------------------------------------------------------------------------------

Status ControllerHost::spawn(uint32_t rank, const std::vector<std::string>& argv,
                             const std::vector<std::string>& env, const std::string& cwd) {
  if (ranks_.size() <= rank) ranks_.resize(rank + 1);
  SK_ASSIGN_OR_RETURN(auto link, local::socket_pair());
  SK_ASSIGN_OR_RETURN(auto out, local::pipe_pair());
  SK_ASSIGN_OR_RETURN(auto err, local::pipe_pair());
  auto child = std::make_unique<RankProcess>();
  SK_ASSIGN_OR_RETURN(child->link, local::Link::adopt(std::move(link.first)));
  child->capture[0] = std::move(out.first);
  child->capture[1] = std::move(err.first);
  for (const local::Fd& fd : child->capture)
    SK_RETURN_IF_ERROR(local::set_nonblocking(fd.get(), true));
  local::SpawnSpec spec;
  spec.argv = argv;
  spec.env = env;
  spec.env.push_back(fmt::format("SK_WORKER_FD={}", kWorkerFd));
  spec.env.push_back(fmt::format("SK_CAPTURE_FDS={},{}", kCaptureOut, kCaptureErr));
  spec.cwd = cwd;
  spec.fds = {{out.second.get(), 1},
              {err.second.get(), 2},
              {link.second.get(), kWorkerFd},
              {child->capture[0].get(), kCaptureOut},
              {child->capture[1].get(), kCaptureErr},
              {secret_.get(), kSecretFd}};
  spec.dies_with_parent = true;
  spec.descriptors = descriptors_;
  if (forks_) {
    SK_RETURN_IF_ERROR(template_.request(rank, spec));
    child->forking = true;
  } else {
    SK_ASSIGN_OR_RETURN(child->process, local::Process::spawn(spec));
  }
  child->capture_here = child->reading = true;
  ranks_[rank] = std::move(child);
  return watch(rank);
}

Status ControllerHost::watch(uint32_t rank) {
  const RankProcess& r = *ranks_[rank];
  SK_RETURN_IF_ERROR(poller_.add(r.link.fd(), token(Source::kLink, rank)));
  SK_RETURN_IF_ERROR(poller_.add(r.capture[0].get(), token(Source::kStdout, rank)));
  SK_RETURN_IF_ERROR(poller_.add(r.capture[1].get(), token(Source::kStderr, rank)));
  if (r.process.pid() <= 0) return {};
  return poller_.add(r.process.pidfd(), token(Source::kExit, rank));
}

// Processes that the template has forked meanwhile, and those that it never will.
void ControllerHost::pump_template() {
  std::vector<RankTemplate::Outcome> outcomes = template_.pump();
  for (std::string& note : template_.take_notes())
    controller_.on_template_note(std::move(note), monotonic_ns());
  for (RankTemplate::Outcome& outcome : outcomes) {
    RankProcess& r = *ranks_[outcome.rank];
    r.forking = false;
    r.process = std::move(outcome.process);
    if (r.process.pid() > 0 &&
        poller_.add(r.process.pidfd(), token(Source::kExit, outcome.rank)).ok())
      continue;
    drop(outcome.rank);
    controller_.agent().on_not_started(outcome.rank, outcome.why, monotonic_ns());
  }
}

// A rank that has no process.
void ControllerHost::drop(uint32_t rank) {
  RankProcess& r = *ranks_[rank];
  close_link(rank);
  hand_over_capture(rank);
  for (local::Fd& fd : r.capture) fd.reset();
}

void ControllerHost::send(uint32_t rank, const Message& message) {
  if (rank == UINT32_MAX) {  // The session.
    if (!append_frames(message, session_.outbox()).ok()) lose_session();
    return;
  }
  RankProcess& r = *ranks_[rank];
  if (!r.link.open()) return;
  const Status status = append_frames(message, r.link.outbox());
  if (!status.ok()) return controller_.agent().kill(rank, status.message());
  flush_rank(rank);
}

void ControllerHost::flush_rank(uint32_t rank) {
  if (!ranks_[rank] || !ranks_[rank]->link.open()) return;
  RankProcess& r = *ranks_[rank];
  // A broken link shows itself as closed to the reader too, which reports it.
  const bool more = r.link.flush() && r.link.queued_bytes() > 0;
  if (more == r.writing && r.reading == !paused_) return;
  r.writing = more;
  r.reading = !paused_;
  if (!poller_.watch(r.link.fd(), token(Source::kLink, rank), r.reading, r.writing).ok())
    close_link(rank);
}

void ControllerHost::read_link(uint32_t rank) {
  RankProcess& r = *ranks_[rank];
  // Its process is known before it speaks: the template said so earlier.
  if (r.forking) pump_template();
  std::string bytes;
  const local::ReadResult result = r.link.read(bytes, kLinkTurnBytes);
  if (!bytes.empty()) controller_.agent().on_bytes(rank, monotonic_ns());
  r.reader.feed(bytes);
  while (r.link.open()) {
    auto message = r.reader.next();
    if (!message.ok()) {
      close_link(rank);
      return controller_.agent().on_link_broken(
          rank, "broke the protocol: " + message.status().message(), monotonic_ns());
    }
    if (!message->has_value()) break;
    controller_.agent().on_message(rank, std::move(**message), monotonic_ns());
  }
  if (result == local::ReadResult::kClosed && r.link.open()) {
    close_link(rank);
    controller_.agent().on_link_broken(rank, "", monotonic_ns());
  }
}

void ControllerHost::close_link(uint32_t rank) {
  RankProcess& r = *ranks_[rank];
  if (!r.link.open()) return;
  poller_.remove(r.link.fd());
  r.link.close();
}

void ControllerHost::hand_over_capture(uint32_t rank) {
  RankProcess& r = *ranks_[rank];
  if (!r.capture_here) return;
  r.capture_here = false;
  for (const local::Fd& fd : r.capture) poller_.remove(fd.get());
}

// Also while the front end is behind and nobody is read: what a rank has said waits there.
bool ControllerHost::has_unread(uint32_t rank) {
  if (rank >= ranks_.size() || !ranks_[rank] || !ranks_[rank]->link.open()) return false;
  return local::wait_for(ranks_[rank]->link.fd(), false, 0);
}

bool ControllerHost::is_starved(uint32_t rank) {
  if (rank >= ranks_.size() || !ranks_[rank] || ranks_[rank]->process.pid() <= 0) return false;
  const char state = thread_state(ranks_[rank]->process.pid(), kIoThreadName);
  return state == 'R' || state == 'D';
}

void ControllerHost::read_capture(uint32_t rank, int which) {
  if (!ranks_[rank]) return;
  RankProcess& r = *ranks_[rank];
  if (!r.capture[which].open()) return;
  std::string text;
  if (local::read_some(r.capture[which].get(), text) == local::ReadResult::kClosed) {
    if (r.capture_here) poller_.remove(r.capture[which].get());
    r.capture[which].reset();
    return;
  }
  const uint32_t stream = which == 0 ? SK_STREAM_STDOUT : SK_STREAM_STDERR;
  if (!text.empty()) controller_.agent().on_captured(rank, stream, std::move(text), monotonic_ns());
}

void ControllerHost::signal(uint32_t rank, int signal_number) {
  if (rank >= ranks_.size() || !ranks_[rank]) return;
  ranks_[rank]->process.signal_group(signal_number);
  // Not forked yet: it ends with the template that cannot do it in time.
  if (ranks_[rank]->forking) template_.kill();
}

// What the rank sent and wrote before its end is taken first, so that nothing printed is lost.
void ControllerHost::on_exit(uint32_t rank) {
  if (!ranks_[rank] || ranks_[rank]->process.pid() <= 0) return;
  RankProcess& r = *ranks_[rank];
  const pid_t pid = r.process.pid();
  const auto end = r.process.try_reap();
  if (!end) return;
  if (controller_.agent().is_ending()) {
    record::note_end(pid, record::End::kExited, 0);  // However: it was asked to.
  } else {
    record::note_end(pid, end->signaled ? record::End::kSignaled : record::End::kExited, end->code);
  }
  poller_.remove(r.process.pidfd());
  while (r.link.open()) {
    const int fd = r.link.fd();
    read_link(rank);
    if (r.link.open() && !local::wait_for(fd, false, 0)) close_link(rank);
  }
  for (int which : {0, 1}) {
    while (r.capture[which].open() && local::wait_for(r.capture[which].get(), false, 0))
      read_capture(rank, which);
    if (r.capture_here && r.capture[which].open()) poller_.remove(r.capture[which].get());
    r.capture[which].reset();
  }
  const uint64_t oom_before = std::exchange(oom_kills_, oom_kills());
  const bool out_of_memory = end->signaled && end->code == SIGKILL && oom_kills_ > oom_before;
  controller_.agent().on_exit(rank, {end->signaled, end->code, out_of_memory}, monotonic_ns());
}

Result<ServerPorts> ControllerHost::hold_ports() {
  SK_ASSIGN_OR_RETURN(local::HeldPort torch, local::hold_port(local::HeldFor::kThisUser));
  SK_ASSIGN_OR_RETURN(jax_port_, local::hold_port(local::HeldFor::kThisUser));
  torch_port_ = std::move(torch);
  return ServerPorts{torch_port_.port, jax_port_.port};
}

RankFacts ControllerHost::rank_facts(uint32_t rank) {
  if (rank >= ranks_.size() || !ranks_[rank] || ranks_[rank]->process.pid() <= 0) return {};
  const pid_t pid = ranks_[rank]->process.pid();
  return {pid, resident_bytes(pid)};
}

Status run_controller(local::Poller poller, local::Link session, local::Fd listener, Job job,
                      local::Fd secret) {
  ControllerHost host(std::move(poller), std::move(session), std::move(listener), std::move(job),
                      std::move(secret));
  return host.run();
}

}  // namespace sk::control
