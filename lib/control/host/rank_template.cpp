#include "lib/control/host/rank_template.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "lib/control/agent.h"
#include "transport/local/link.h"

namespace sk::control {
namespace {

constexpr int kTemplateFd = 7;   // In the template: the socket. Below it lie a rank's descriptors,
constexpr int kFirstRankFd = 3;  // kept free so that nothing of the program's is overwritten.
constexpr size_t kSentMax = 2 * local::kForkBatchMax;  // Descriptors under way are limited.
constexpr size_t kTailBytesMax = 8192;
constexpr int64_t kReapMs = 2'000;
constexpr int kRepliesMax = 4 * int(kSentMax);  // In one turn.

std::string name_of(const std::string& line) { return line.substr(0, line.find('=')); }

// The lines that are alike in all requests.
template <typename Requests>
std::vector<std::string> common_lines(const Requests& requests) {
  std::vector<std::string> common = requests.front().fork.env;
  for (const auto& request : requests) {
    const auto& env = request.fork.env;
    std::erase_if(common, [&](const std::string& line) {
      return std::find(env.begin(), env.end(), line) == env.end();
    });
  }
  return common;
}

}  // namespace

RankTemplate::~RankTemplate() {
  if (process_.pid() <= 0) return;
  kill();
  local::wait_for(process_.pidfd(), false, kReapMs);
  reset();
}

Status RankTemplate::request(uint32_t rank, const local::SpawnSpec& spec) {
  descriptors_ = spec.descriptors;
  Request request{spec.argv, {rank, false, spec.cwd, spec.env, {}}};
  for (const auto& [fd, target] : spec.fds) {
    local::Fd copy(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!copy.open()) return system_error("fcntl(F_DUPFD)");
    request.fork.fds.emplace_back(std::move(copy), target);
  }
  waiting_.push_back(std::move(request));
  return {};
}

void RankTemplate::kill() const { process_.signal_group(SIGKILL); }

std::vector<RankTemplate::Outcome> RankTemplate::pump() {
  std::vector<Outcome> outcomes;
  if (process_.pid() > 0) {
    read_output();
    read_replies(&outcomes);
    end_if_dead(&outcomes);
  }
  // One template at a time: another program's waits until this one has done its part.
  if (!waiting_.empty() && sent_.empty() && !serves(waiting_.front())) {
    kill();
    if (process_.pid() > 0) local::wait_for(process_.pidfd(), false, kReapMs);
    reset();
    const Status started = start();
    if (!started.ok()) fail_all(started.message(), &outcomes);
  }
  // What it forks becomes a child of this process when the one between them exits.
  if (!waiting_.empty() && prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
    fail_all("prctl(PR_SET_CHILD_SUBREAPER): " + std::string(strerror(errno)), &outcomes);
  send_what_fits(&outcomes);
  // Orphans of users' programs are not ours to keep.
  if (idle()) (void)prctl(PR_SET_CHILD_SUBREAPER, 0);
  return outcomes;
}

// Same program, and nothing in its environment that the new rank must not have.
bool RankTemplate::serves(const Request& request) const {
  if (process_.pid() <= 0 || argv_ != request.argv) return false;
  const auto& env = request.fork.env;
  return std::all_of(env_.begin(), env_.end(), [&](const std::string& line) {
    return std::any_of(env.begin(), env.end(),
                       [&](const std::string& other) { return name_of(other) == name_of(line); });
  });
}

Status RankTemplate::start() {
  argv_ = waiting_.front().argv;
  env_ = common_lines(waiting_);
  SK_ASSIGN_OR_RETURN(auto sockets, local::packet_pair());
  SK_ASSIGN_OR_RETURN(auto output, local::pipe_pair());
  local::Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null.open()) return system_error("open /dev/null");
  local::SpawnSpec spec;
  spec.argv = argv_;
  spec.env = env_;
  spec.env.push_back(fmt::format("SK_TEMPLATE_FD={}", kTemplateFd));
  spec.cwd = waiting_.front().fork.cwd;
  spec.fds = {
      {output.second.get(), 1}, {output.second.get(), 2}, {sockets.second.get(), kTemplateFd}};
  for (int fd = kFirstRankFd; fd < kTemplateFd; ++fd) spec.fds.emplace_back(null.get(), fd);
  spec.dies_with_parent = true;
  spec.descriptors = descriptors_;
  SK_RETURN_IF_ERROR(local::set_nonblocking(output.first.get(), true));
  SK_ASSIGN_OR_RETURN(process_, local::Process::spawn(spec));
  socket_ = std::move(sockets.first);
  output_ = std::move(output.first);
  SK_RETURN_IF_ERROR(poller_.add(socket_.get(), first_token_));
  SK_RETURN_IF_ERROR(poller_.add(output_.get(), first_token_ + token_step_));
  return poller_.add(process_.pidfd(), first_token_ + 2 * token_step_);
}

void RankTemplate::send_what_fits(std::vector<Outcome>* outcomes) {
  while (ready_ && !waiting_.empty() && sent_.size() < kSentMax && serves(waiting_.front())) {
    local::ForkRequest& fork = waiting_.front().fork;
    std::erase_if(fork.env, [&](const std::string& line) {
      return std::find(env_.begin(), env_.end(), line) != env_.end();
    });
    const bool more = waiting_.size() > 1 && serves(waiting_[1]);
    fork.last = !more || batch_ + 1 == local::kForkBatchMax;
    auto result = local::send_request(socket_.get(), fork);
    if (!result.ok()) {  // The rest is as long, and its batch may be open: nothing of it can be.
      kill();
      return fail_all(result.status().message(), outcomes);
    }
    if (*result != local::PacketResult::kDone) return;  // Answers make room; an end is seen there.
    batch_ = fork.last ? 0 : batch_ + 1;
    sent_.push_back(fork.id);
    waiting_.pop_front();
  }
}

void RankTemplate::read_replies(std::vector<Outcome>* outcomes) {
  local::ForkReply reply;
  // A template that never stops telling keeps nothing else from its turn.
  for (int i = 0; i < kRepliesMax; ++i) {
    if (local::receive_reply(socket_.get(), &reply) != local::PacketResult::kDone) return;
    if (reply.id == local::kForkReady) ready_ = true;
    if (reply.id == local::kForkNote) notes_.push_back(reply.note);
    if (reply.id == local::kForkDone) adopt_forked(outcomes);
    const auto rank = std::find(sent_.begin(), sent_.end(), reply.id);
    if (rank != sent_.end()) forked_[*rank] = reply;
  }
}

// Those of a batch that is done are our children now.
void RankTemplate::adopt_forked(std::vector<Outcome>* outcomes) {
  for (const auto& [rank, reply] : std::exchange(forked_, {})) {
    std::erase(sent_, rank);
    Outcome outcome{rank, {}, ""};
    auto process = local::Process::adopt(reply.pid);
    if (reply.pid <= 0)
      outcome.why = fmt::format("fork: {}", strerror(reply.failure));
    else if (!process.ok())
      outcome.why = process.status().message();
    else
      outcome.process = std::move(process).value();
    outcomes->push_back(std::move(outcome));
  }
}

void RankTemplate::read_output() {
  std::string text;
  while (local::read_some(output_.get(), text) == local::ReadResult::kData) continue;
  tail_ += text;
  if (tail_.size() > 2 * kTailBytesMax) tail_.erase(0, tail_.size() - kTailBytesMax);
}

void RankTemplate::end_if_dead(std::vector<Outcome>* outcomes) {
  const auto end = process_.try_reap();
  if (!end) return;
  read_output();
  read_replies(outcomes);
  fail_all(fmt::format("the template process that ranks are forked from {}",
                       describe_end({end->signaled, end->code},
                                    ready_ ? "" : " before it was ready", tail_)),
           outcomes);
  reset();
}

void RankTemplate::fail_all(const std::string& why, std::vector<Outcome>* outcomes) {
  for (const uint32_t rank : std::exchange(sent_, {})) outcomes->push_back({rank, {}, why});
  for (const Request& request : std::exchange(waiting_, {}))
    outcomes->push_back({request.fork.id, {}, why});
}

// Forgets a template that is dead or dies.
void RankTemplate::reset() {
  if (process_.pidfd() >= 0) poller_.remove(process_.pidfd());
  if (output_.open()) poller_.remove(output_.get());
  if (socket_.open()) poller_.remove(socket_.get());
  process_.try_reap();
  process_ = {};
  socket_.reset();
  output_.reset();
  forked_.clear();
  tail_.clear();
  ready_ = false;
  batch_ = 0;
}

}  // namespace sk::control
