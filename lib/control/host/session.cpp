#include "lib/control/host/session.h"

#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>

#include "lib/control/host/clock.h"
#include "lib/control/target.h"
#include "transport/local/named_socket.h"

namespace sk::control {
namespace {

constexpr int64_t kWelcomeMs = 10'000;
constexpr int64_t kSendMs = 10'000;
constexpr int64_t kCloseMs = 8'000;  // The controller itself takes at most 4 s to end its ranks.
constexpr int64_t kKillMs = 2'000;

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

Status controller_lost() {
  return error(SK_ERR_PEER_LOST, "session: the controller process is gone, and the ranks with it");
}

}  // namespace

std::string find_sk_program() {
  const char* named = std::getenv("SK_PROGRAM");
  if (named != nullptr && *named != '\0') return named;
  char self[PATH_MAX + 1] = {};
  const ssize_t n = readlink("/proc/self/exe", self, PATH_MAX);
  std::string program(self, n > 0 ? static_cast<size_t>(n) : 0);
  if (program.ends_with("/sk")) return program;
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&find_sk_program), &info) != 0 && info.dli_fname != nullptr) {
    const std::string here = directory_of(info.dli_fname);
    for (const std::string& candidate : {here + "/sk", here + "/../bin/sk", here + "/bin/sk"})
      if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "sk";
}

Result<std::unique_ptr<Session>> Session::open(Open open, const std::string& sk_program) {
  std::unique_ptr<Session> session(new Session);
  SK_ASSIGN_OR_RETURN(auto link, local::socket_pair());
  local::SpawnSpec spec;
  spec.argv = {sk_program.empty() ? find_sk_program() : sk_program, "controller", "--fd", "3"};
  spec.fds = {{link.second.get(), 3}};
  local::Fd door;
  if (!open.name.empty()) {
    SK_ASSIGN_OR_RETURN(door, local::listen_by_name(open.name));
    session->name_ = open.name;
    spec.fds.emplace_back(door.get(), 4);
    spec.argv.insert(spec.argv.end(), {"--door", "4"});
  }
  auto controller = local::Process::spawn(spec);
  if (!controller.ok())
    return std::move(controller.status())
        .with_context("session: the controller's program (SK_PROGRAM may name another)");
  session->controller_ = std::move(controller).value();
  link.second.reset();
  SK_ASSIGN_OR_RETURN(session->link_, local::Link::adopt(std::move(link.first)));
  session->rank_count_ = open.ranks;
  if (open.cwd.empty()) {
    char here[PATH_MAX];
    if (getcwd(here, sizeof here) != nullptr) open.cwd = here;
  }
  const Status sent = session->send(open);
  // A program that ended at once may be met before or after the first message.
  if (sent.code() == SK_ERR_PEER_LOST)
    session->closed_ = true;
  else
    SK_RETURN_IF_ERROR(sent.clone());
  SK_RETURN_IF_ERROR(session->wait_for_welcome());
  return session;
}

Session::~Session() {
  if (attached_) {
    leave();
    return;
  }
  const Status ignored = close();  // Destructors release; close() reports.
  (void)ignored;
}

Status Session::wait_for_welcome() {
  SK_ASSIGN_OR_RETURN(auto message, receive(kWelcomeMs));
  if (message && std::holds_alternative<Welcome>(*message)) return {};
  if (closed_)
    return error(SK_ERR_SYSTEM, "session: the controller program ended before it answered");
  return error(SK_ERR_TIMEOUT, "session: the controller did not answer within {} ms", kWelcomeMs);
}

Status Session::send(const Message& message) {
  const std::lock_guard lock(send_mutex_);
  if (!link_.open()) return controller_lost();
  SK_RETURN_IF_ERROR(append_frames(message, link_.outbox()));
  const int64_t until_ns = monotonic_ns() + kSendMs * 1'000'000;
  while (true) {
    if (!link_.flush()) return controller_lost();
    if (link_.queued_bytes() == 0) return {};
    const int64_t left_ms = (until_ns - monotonic_ns()) / 1'000'000;
    if (left_ms <= 0 || !local::wait_for(link_.fd(), true, left_ms))
      return error(SK_ERR_TIMEOUT, "session: the controller took no input for {} ms", kSendMs);
  }
}

Result<uint64_t> Session::execute(Execute request) {
  SK_RETURN_IF_ERROR(check_ranks(request.ranks, rank_count_).with_context("cell"));
  request.cell = ++last_cell_;
  SK_RETURN_IF_ERROR(send(request));
  return request.cell;
}

Result<uint64_t> Session::ask(Ask ask) {
  if (ask.kind >= kAskStatus) SK_RETURN_IF_ERROR(check_ranks(ask.code, rank_count_));
  ask.request = ++last_request_;
  SK_RETURN_IF_ERROR(send(ask));
  return ask.request;
}

Status Session::answer(InputReply reply) { return send(reply); }

Result<uint64_t> Session::comm(Comm message) {
  message.cell = ++last_cell_;
  SK_RETURN_IF_ERROR(send(message));
  return message.cell;
}

Result<uint64_t> Session::log(LogRequest request) {
  SK_ASSIGN_OR_RETURN(const RankSet ranks, parse_ranks(request.ranks, rank_count_));
  if (!request.ranks.empty()) request.ranks = format_ranks(ranks);  // The log knows no world.
  request.request = ++last_request_;
  SK_RETURN_IF_ERROR(send(request));
  return request.request;
}

Status Session::interrupt(uint64_t cell) { return send(Interrupt{cell, 0}); }

// The next message, or nothing when the time ran out or the link closed (closed_ tells).
Result<std::optional<Message>> Session::receive(int64_t timeout_ms) {
  const int64_t until_ns = monotonic_ns() + timeout_ms * 1'000'000;
  while (true) {
    SK_ASSIGN_OR_RETURN(auto message, reader_.next());
    if (message || closed_) return message;
    const int64_t left_ms = std::max<int64_t>(0, (until_ns - monotonic_ns()) / 1'000'000);
    if (!local::wait_for(link_.fd(), false, left_ms)) return std::optional<Message>();
    std::string bytes;
    if (link_.read(bytes) == local::ReadResult::kClosed) closed_ = true;
    reader_.feed(bytes);
  }
}

Status Session::poll(int64_t timeout_ms, const std::function<void(Event)>& take) {
  const std::unique_lock lock(poll_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return error(SK_ERR_BUSY, "session: another thread is polling it");
  if (over_) return controller_lost();
  SK_ASSIGN_OR_RETURN(std::optional<Event> event, next_event(timeout_ms));
  take(event ? std::move(*event) : Event{});
  return {};
}

Result<std::optional<Event>> Session::next_event(int64_t timeout_ms) {
  SK_ASSIGN_OR_RETURN(auto message, receive(timeout_ms));
  if (message && std::holds_alternative<Event>(*message)) {
    Event event = std::get<Event>(std::move(*message));
    last_seq_ = event.seq;
    over_ = event.kind == SK_EVENT_STATUS && event.status == SK_SESSION_OVER;
    return std::optional(std::move(event));
  }
  if (message) return error(SK_ERR_TRANSPORT, "session: the controller sent what is no event");
  if (!closed_) return std::optional<Event>();
  over_ = true;
  forget_name();
  Event event;
  event.kind = SK_EVENT_STATUS;
  event.seq = last_seq_ + 1;
  event.status = SK_SESSION_OVER;
  event.text = "the controller process is gone";
  return std::optional(std::move(event));
}

Status Session::close() {
  if (controller_.pid() <= 0) return {};
  const Status ignored = send(Shutdown{});  // If it is gone already, there is nothing to ask for.
  (void)ignored;
  if (local::wait_for(controller_.pidfd(), false, 0) == false) {
    const int64_t until_ns = monotonic_ns() + kCloseMs * 1'000'000;
    // What it still sends is taken, so that a full link cannot hold it back.
    while (!closed_ && monotonic_ns() < until_ns) {
      auto message = receive(100);
      if (!message.ok()) break;
      if (local::wait_for(controller_.pidfd(), false, 0)) break;
    }
    const int64_t left_ms = std::max<int64_t>(0, (until_ns - monotonic_ns()) / 1'000'000);
    local::wait_for(controller_.pidfd(), false, left_ms);
  }
  link_.close();
  if (controller_.try_reap() || controller_.pid() <= 0) return {};
  forget_name();
  controller_.signal_group(SIGKILL);  // Its ranks die with it.
  local::wait_for(controller_.pidfd(), false, kKillMs);
  controller_.try_reap();
  return error(SK_ERR_TIMEOUT, "session: the controller did not end within {} ms", kCloseMs);
}

void Session::leave() {
  link_.close();
  controller_ = {};
}

}  // namespace sk::control
