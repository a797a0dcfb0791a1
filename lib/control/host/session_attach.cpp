// A session that goes on with a controller whose front end was lost.
#include <poll.h>

#include <algorithm>
#include <utility>

#include "lib/control/host/clock.h"
#include "lib/control/host/session.h"
#include "transport/local/named_socket.h"

namespace sk::control {
namespace {

// The lost front end's end of the link may be noticed a little later than its process is gone.
constexpr int64_t kAttachMs = 3'000;
constexpr int kAgainMs = 50;

}  // namespace

Result<std::unique_ptr<Session>> Session::attach(const std::string& name,
                                                 const std::string& token) {
  const int64_t until_ns = monotonic_ns() + kAttachMs * 1'000'000;
  while (true) {
    Result<local::Fd> fd = local::connect_by_name(name);
    if (fd.status().code() == SK_ERR_BUSY && monotonic_ns() < until_ns) {
      ::poll(nullptr, 0, kAgainMs);
      continue;
    }
    if (!fd.ok()) return std::move(fd.status());
    std::unique_ptr<Session> session(new Session);
    SK_ASSIGN_OR_RETURN(session->link_, local::Link::adopt(std::move(*fd)));
    const Status sent = session->send(Attach{kProtocolVersion, token});
    const int64_t left_ms = (until_ns - monotonic_ns()) / 1'000'000;
    SK_ASSIGN_OR_RETURN(auto message, session->receive(std::max<int64_t>(0, left_ms)));
    if (message && std::holds_alternative<Welcome>(*message)) {
      session->attached_ = true;
      SK_RETURN_IF_ERROR(session->go_on(std::get<Welcome>(*message), name));
      return session;
    }
    if (monotonic_ns() >= until_ns)
      return error(SK_ERR_BUSY,
                   "session: the controller of this name does not take us: another front end is "
                   "attached, or the token is wrong");
    ::poll(nullptr, 0, kAgainMs);
  }
}

Status Session::go_on(const Welcome& welcome, const std::string& name) {
  if (welcome.ranks < 1 || welcome.ranks > kRankCountMax || welcome.pid == 0)
    return error(SK_ERR_TRANSPORT, "session: the controller welcomed us to {} ranks of process {}",
                 welcome.ranks, welcome.pid);
  SK_ASSIGN_OR_RETURN(controller_, local::Process::adopt(static_cast<pid_t>(welcome.pid)));
  rank_count_ = welcome.ranks;
  last_cell_ = welcome.last_cell;
  name_ = name;
  return {};
}

Status Session::acknowledge(uint64_t cell) { return send(Ack{cell}); }

Status Session::keep(const Note& note) { return send(note); }

// A controller that was killed could not do it itself.
void Session::forget_name() {
  if (!name_.empty()) local::remove_name(name_);
  name_.clear();
}

}  // namespace sk::control
