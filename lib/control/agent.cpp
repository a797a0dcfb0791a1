#include "lib/control/agent.h"

#include <signal.h>
#include <string.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "lib/control/stack_text.h"

namespace sk::control {
namespace {

constexpr size_t kTailBytesMax = 8192;
constexpr size_t kTailLines = 20;
constexpr size_t kTailLineMax = 1024;  // Of a longer line the beginning is kept.
constexpr std::string_view kCut = "…";

// The last kTailLines lines of `text`.
std::string last_lines(const std::string& text) {
  size_t begin = text.size();
  for (size_t lines = 0; begin > 0; --begin)
    if (text[begin - 1] == '\n' && begin < text.size() && ++lines == kTailLines) break;
  return text.substr(begin);
}

constexpr std::string_view kItsLastWords = "; its last words:\n";
constexpr std::string_view kCrash = "Fatal Python error: ";

// What Python says when it is hit by a signal: the error, and the stack of the thread that was hit,
// without what stands below the cell; other threads and lists of modules left out.
std::string crash_of(const std::string& said) {
  std::string text = said.substr(0, said.find('\n')) + "\n";
  const size_t thread = said.find("\nCurrent thread ");
  if (thread == std::string::npos) return text;
  for (size_t line = said.find('\n', thread + 1); line != std::string::npos;
       line = said.find('\n', line + 1))
    if (said.compare(line + 1, 2, "  ") != 0) {
      text += clean_language_stack(said.substr(thread, line + 1 - thread));
      return text;
    }
  return text + clean_language_stack(said.substr(thread));
}

std::string words_of(const std::string& said) {
  const size_t crash = said.rfind(kCrash);
  return crash == std::string::npos ? last_lines(said) : crash_of(said.substr(crash));
}

}  // namespace

CauseOfDeath split_cause(const std::string& cause) {
  CauseOfDeath split{cause.substr(0, cause.find(kItsLastWords)), {}};
  size_t at = cause.find(kCrash);
  if (at != split.sentence.size() + kItsLastWords.size()) return split;
  for (size_t end = 0; at < cause.size(); at = end + 1) {
    end = std::min(cause.find('\n', at), cause.size());
    split.crash.push_back(cause.substr(at, end - at));
  }
  return split;
}

std::string describe_end(ProcessEnd end, const std::string& when, const std::string& said) {
  std::string text;
  if (end.signaled) {
    const char* name = sigabbrev_np(end.code);
    text = "killed by signal " + std::to_string(end.code) +
           (name != nullptr ? " (SIG" + std::string(name) + ")" : "");
    if (end.out_of_memory) text += " by the kernel, because its control group is out of memory";
  } else {
    text = "exited with code " + std::to_string(end.code);
  }
  text += when;
  const std::string words = words_of(said);
  if (!words.empty()) text.append(kItsLastWords) += words;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::vector<std::string> rank_environment(uint32_t rank, uint32_t world_size, const Job& job) {
  const std::string r = std::to_string(rank), n = std::to_string(world_size);
  const std::string host = "127.0.0.1";
  std::vector<std::string> env = {
      "RANK=" + r,
      "WORLD_SIZE=" + n,
      "LOCAL_RANK=" + r,
      "LOCAL_WORLD_SIZE=" + n,
      "GROUP_RANK=0",
      "GROUP_WORLD_SIZE=1",
      "ROLE_NAME=default",
      "ROLE_RANK=" + r,
      "ROLE_WORLD_SIZE=" + n,
      "MASTER_ADDR=" + host,
      "MASTER_PORT=" + std::to_string(job.ports.torch),
      "TORCHELASTIC_RESTART_COUNT=0",
      "TORCHELASTIC_MAX_RESTARTS=0",
      "TORCHELASTIC_RUN_ID=" + job.id,
      "TORCHELASTIC_USE_AGENT_STORE=False",
      "JAX_COORDINATOR_ADDRESS=" + host + ":" + std::to_string(job.ports.jax),
      "JAX_PROCESS_ID=" + r,
      "JAX_NUM_PROCESSES=" + n,
      "SK_MASTER_PORT=" + std::to_string(job.sk_port),
      "SK_JOB_SECRET_FD=" + job.secret_fd};
  // Else each rank's NumPy and PyTorch would start as many threads as there are cores.
  if (job.cores > 0)
    env.push_back("OMP_NUM_THREADS=" + std::to_string(std::max(1u, job.cores / world_size)));
  return env;
}

Agent::Agent(AgentPorts& ports, AgentEvents& events, AgentTimers timers)
    : ports_(ports), events_(events), timers_(timers) {}

void Agent::start(const Open& open, Job job, int64_t now_ns) {
  for (const std::string& line : open.env)
    if (line.starts_with("OMP_NUM_THREADS=")) job.cores = 0;
  open_ = open;
  job_ = std::move(job);
  ranks_.resize(open.ranks);
  for (uint32_t rank = 0; rank < open.ranks; ++rank) spawn(rank, now_ns);
}

void Agent::spawn(uint32_t rank, int64_t now_ns) {
  std::vector<std::string> env = open_.env;
  for (std::string& line : rank_environment(rank, open_.ranks, job_))
    env.push_back(std::move(line));
  ranks_[rank] = Rank{};
  ranks_[rank].heard_ns = now_ns;
  ranks_[rank].state = State::kStarting;
  const Status status = ports_.spawn(rank, open_.argv, env, open_.cwd);
  if (!status.ok()) on_not_started(rank, status.message(), now_ns);
}

void Agent::respawn(uint32_t rank, int64_t now_ns) {
  if (phase_ != Phase::kRunning) return;
  if (ranks_[rank].state == State::kGone) return spawn(rank, now_ns);
  ranks_[rank].respawns = true;
  ports_.signal(rank, SIGKILL);
}

void Agent::on_template_note(int64_t now_ns) {
  for (Rank& r : ranks_)
    if (r.state == State::kStarting) r.heard_ns = std::max(r.heard_ns, now_ns);
}

void Agent::on_bytes(uint32_t rank, int64_t now_ns) {
  if (ranks_[rank].state == State::kReady) ranks_[rank].heard_ns = now_ns;
}

void Agent::on_message(uint32_t rank, Message message, int64_t now_ns) {
  Rank& r = ranks_[rank];
  if (r.respawns || (r.state != State::kStarting && r.state != State::kReady)) return;
  r.heard_ns = now_ns;
  if (auto* heartbeat = std::get_if<Heartbeat>(&message)) {
    r.heartbeat = std::move(*heartbeat);
    if (r.state == State::kReady) events_.rank_message(rank, r.heartbeat, now_ns);
    return;
  }
  if (const auto* hello = std::get_if<Hello>(&message)) {
    if (r.state == State::kReady) return kill(rank, "said hello twice");
    if (hello->rank != rank) return kill(rank, "joined as rank " + std::to_string(hello->rank));
    r.state = State::kReady;
    r.captures = hello->captures;
    r.tail.clear();
    if (hello->captures) ports_.hand_over_capture(rank);
    ports_.send(rank, Welcome{});
    return events_.rank_ready(rank, *hello, now_ns);
  }
  if (r.state != State::kReady) return kill(rank, "spoke before its hello");
  if (const auto* output = std::get_if<Output>(&message))
    for (const Record& record : output->records)
      if (const auto* stream = std::get_if<StreamRecord>(&record.body))
        if (stream->stream == SK_STREAM_STDERR) keep_tail(r, stream->text);
  events_.rank_message(rank, std::move(message), now_ns);
}

void Agent::keep_tail(Rank& rank, const std::string& text) {
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const size_t length = rank.tail.size() - (rank.tail.rfind('\n') + 1);  // npos + 1 is 0.
    if (length <= kTailLineMax) {
      rank.tail += rest.substr(0, std::min(end, kTailLineMax - length));
      if (length + end > kTailLineMax) rank.tail += kCut;
    }
    if (end < rest.size()) rank.tail += '\n';
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (rank.tail.size() <= 2 * kTailBytesMax) return;
  rank.tail.erase(0, rank.tail.find('\n', rank.tail.size() - kTailBytesMax) + 1);
}

// Before the hello, and from what a dead rank left in its pipes, only the reason of a failure is
// wanted. A rank that does not capture itself has its text passed on.
void Agent::on_captured(uint32_t rank, uint32_t stream, std::string text, int64_t now_ns) {
  Rank& r = ranks_[rank];
  if (r.respawns) return;
  if (stream == SK_STREAM_STDERR) keep_tail(r, text);
  if (r.state != State::kReady) return;
  Output output;  // Sequence 0: numbered by no rank.
  output.records.push_back({now_ns, StreamRecord{stream, std::move(text)}});
  events_.rank_message(rank, std::move(output), now_ns);
}

void Agent::on_link_broken(uint32_t rank, const std::string& why, int64_t now_ns) {
  Rank& r = ranks_[rank];
  if (r.state == State::kGone || r.respawns || phase_ != Phase::kRunning) return;
  // A rank without its link is of no use; its end is reported when the process is gone. A process
  // that ends by itself closes the link first: give its own cause the time of a death.
  if (r.cause.empty() && !why.empty()) return kill(rank, why);
  r.heard_ns = std::min(r.heard_ns, now_ns - timers_.silence_dead_ns + timers_.term_ns);
}

std::string Agent::describe(const Rank& rank, ProcessEnd end) {
  const char* when = rank.state == State::kStarting ? " before it was ready" : "";
  if (rank.cause.empty()) return describe_end(end, when, rank.tail);
  return describe_end(end, std::string(")") + when, rank.tail).insert(0, rank.cause + " (");
}

void Agent::on_exit(uint32_t rank, ProcessEnd end, int64_t now_ns) {
  Rank& r = ranks_[rank];
  if (r.state == State::kGone || r.state == State::kAbsent) return;
  if (r.respawns && phase_ == Phase::kRunning) return spawn(rank, now_ns);
  const std::string cause = describe(r, end);
  r.state = State::kGone;
  events_.rank_dead(rank, cause, now_ns);
}

void Agent::on_not_started(uint32_t rank, const std::string& why, int64_t now_ns) {
  Rank& r = ranks_[rank];
  if (r.state == State::kGone || r.state == State::kAbsent) return;
  r.state = State::kGone;
  const std::string reason = r.cause.empty() ? why : r.cause + " (" + why + ")";
  events_.rank_dead(rank, "could not be started: " + reason, now_ns);
}

void Agent::send(uint32_t rank, const Message& message) {
  Rank& r = ranks_[rank];
  if (r.state != State::kReady || r.respawns) return;
  if (std::holds_alternative<Execute>(message)) r.tail.clear();
  ports_.send(rank, message);
}

void Agent::kill(uint32_t rank, const std::string& cause) {
  Rank& r = ranks_[rank];
  if (r.state == State::kGone) return;
  if (r.cause.empty()) r.cause = cause;
  ports_.signal(rank, SIGKILL);
}

void Agent::signal_all(int signal_number) {
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank)
    if (ranks_[rank].state == State::kStarting || ranks_[rank].state == State::kReady)
      ports_.signal(rank, signal_number);
}

void Agent::shut_down(int64_t now_ns) {
  if (phase_ != Phase::kRunning) return;
  phase_ = Phase::kAsked;
  phase_until_ns_ = now_ns + timers_.term_ns;
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    send(rank, Shutdown{});
    // One that has not joined cannot hear us, and has nothing to save.
    if (ranks_[rank].state == State::kStarting) ports_.signal(rank, SIGKILL);
  }
}

void Agent::was_busy(int64_t from_ns, int64_t to_ns) {
  if (to_ns - from_ns < timers_.late_ns) return;
  for (Rank& r : ranks_)
    if (r.heard_ns < to_ns) r.heard_ns += to_ns - std::max(from_ns, r.heard_ns);
}

// Whether the rank has been silent for too long. Not while its words wait for us, not while it gets
// no turn on a crowded machine, and not where this question comes late: then whatever kept us may
// have kept the rank as well, or what it said has come just now. Its time begins anew, so one that
// hangs is found all the same.
bool Agent::is_overdue(uint32_t rank, int64_t limit_ns, int64_t now_ns) {
  Rank& r = ranks_[rank];
  const int64_t late_ns = now_ns - r.heard_ns - limit_ns;
  if (late_ns < 0) return false;
  if (late_ns < timers_.late_ns && !ports_.has_unread(rank) && !ports_.is_starved(rank))
    return true;
  r.heard_ns = now_ns;
  return false;
}

void Agent::on_time(int64_t now_ns) {
  if (phase_ != Phase::kRunning) {
    if (now_ns < phase_until_ns_) return;
    signal_all(phase_ == Phase::kAsked ? SIGTERM : SIGKILL);
    phase_ = phase_ == Phase::kAsked ? Phase::kTermed : Phase::kKilled;
    phase_until_ns_ = now_ns + timers_.kill_ns;
    return;
  }
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    Rank& r = ranks_[rank];
    const int64_t silent_ns = now_ns - r.heard_ns;
    if (r.state == State::kStarting && is_overdue(rank, timers_.start_timeout_ns, now_ns)) {
      kill(rank,
           "did not join within " + std::to_string(timers_.start_timeout_ns / 1'000'000) + " ms");
      r.heard_ns = now_ns;
    }
    if (r.state == State::kReady && is_overdue(rank, timers_.silence_dead_ns, now_ns)) {
      kill(rank, "sent no heartbeat for " + std::to_string(silent_ns / 1'000'000) + " ms");
      r.heard_ns = now_ns;
    }
  }
}

int64_t Agent::deadline_ns() const {
  if (phase_ != Phase::kRunning) return all_gone() ? INT64_MAX : phase_until_ns_;
  int64_t deadline = INT64_MAX;
  for (const Rank& r : ranks_) {
    if (r.state == State::kStarting)
      deadline = std::min(deadline, r.heard_ns + timers_.start_timeout_ns);
    if (r.state == State::kReady)
      deadline = std::min(deadline, r.heard_ns + timers_.silence_dead_ns);
  }
  return deadline;
}

bool Agent::all_gone() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) {
    return r.state == State::kGone || r.state == State::kAbsent;
  });
}

}  // namespace sk::control
