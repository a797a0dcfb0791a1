// The agent: starts the ranks of one host, watches them, ends them.
//
// A state machine: messages, ends of processes and the time go in; what it wants done goes out
// through AgentPorts. It touches no process, socket or clock itself, so a simulation can drive it.
#ifndef SK_LIB_CONTROL_AGENT_H_
#define SK_LIB_CONTROL_AGENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/control/message.h"
#include "lib/control/rank_set.h"

namespace sk::control {

struct AgentTimers {
  int64_t start_timeout_ns = 60'000'000'000;
  int64_t silence_dead_ns = 5'000'000'000;  // Ranks send a heartbeat each 500 ms.
  int64_t late_ns = 500'000'000;            // Shorter delays of our own do not count as such.
  int64_t term_ns = 2'000'000'000;          // From asking to SIGTERM,
  int64_t kill_ns = 1'000'000'000;          // and from there to SIGKILL.
};

// What the agent needs done. Calls do not call back.
class AgentPorts {
 public:
  virtual ~AgentPorts() = default;
  // May end before the process exists; Agent::on_not_started() tells when it will not.
  virtual Status spawn(uint32_t rank, const std::vector<std::string>& argv,
                       const std::vector<std::string>& env, const std::string& cwd) = 0;
  virtual void send(uint32_t rank, const Message& message) = 0;
  // To the rank's whole process group.
  virtual void signal(uint32_t rank, int signal_number) = 0;
  // From now on the rank reads its captured descriptors itself.
  virtual void hand_over_capture(uint32_t rank) = 0;
  // Whether the rank has said something that on_message() has not been told yet.
  virtual bool has_unread(uint32_t rank) = 0;
  // Whether what speaks for the rank would, but gets no processor, or waits for a disk.
  virtual bool is_starved(uint32_t rank) = 0;
};

// What the agent reports.
class AgentEvents {
 public:
  virtual ~AgentEvents() = default;
  virtual void rank_ready(uint32_t rank, const Hello& hello, int64_t now_ns) = 0;
  virtual void rank_message(uint32_t rank, Message message, int64_t now_ns) = 0;
  virtual void rank_dead(uint32_t rank, const std::string& cause, int64_t now_ns) = 0;
};

// How a process ended: an exit code, or a signal.
struct ProcessEnd {
  bool signaled = false;
  int code = 0;
  bool out_of_memory = false;  // The kernel killed it for its control group's memory.
};

// "exited with code 1 before it was ready; its last words: ..." in the words of causes of death.
// `when` follows the end, `said` is what it wrote on stderr.
std::string describe_end(ProcessEnd end, const std::string& when, const std::string& said);

// Such a cause without the last words, which a reader of the cell has seen on stderr; of those only
// how the language crashed: "Fatal Python error: Segmentation fault" and the frames of the cell.
struct CauseOfDeath {
  std::string sentence;
  std::vector<std::string> crash;  // Lines; most often none.
};
CauseOfDeath split_cause(const std::string& cause);

// Where PyTorch's and JAX's servers in rank 0 listen. Held by the caller until a rank takes them.
struct ServerPorts {
  uint16_t torch = 0;
  uint16_t jax = 0;
};

// What the ranks of one session share: the names and numbers that rank 0's servers will use.
struct Job {
  std::string id;
  std::string secret_fd;  // As SK_JOB_SECRET_FD names it to a rank.
  ServerPorts ports;
  uint16_t sk_port = 0;
  uint32_t cores = 0;  // That the ranks share; 0: OMP_NUM_THREADS says already what each may use.
  std::string host = "";  // Where the ranks run.
};

// The variables that a rank finds (docs/env.md): torchrun's, JAX's, ours.
std::vector<std::string> rank_environment(uint32_t rank, uint32_t world_size, const Job& job);

class Agent {
 public:
  Agent(AgentPorts& ports, AgentEvents& events, AgentTimers timers);

  void set_start_timeout(int64_t timeout_ns) { timers_.start_timeout_ns = timeout_ns; }
  // Of processes that are started from now on.
  void set_ports(ServerPorts ports) { job_.ports = ports; }
  ServerPorts ports() const { return job_.ports; }

  // Starts `open.ranks` ranks, once.
  void start(const Open& open, Job job, int64_t now_ns);

  // The process that ranks will be forked from is at work: they need not have joined yet.
  void on_template_note(int64_t now_ns);

  // Bytes came that may be no whole message yet: a long one takes many reads.
  void on_bytes(uint32_t rank, int64_t now_ns);
  void on_message(uint32_t rank, Message message, int64_t now_ns);
  // Text that the rank wrote to its descriptors while it did not read them itself.
  void on_captured(uint32_t rank, uint32_t stream, std::string text, int64_t now_ns);
  void on_link_broken(uint32_t rank, const std::string& why, int64_t now_ns);
  void on_exit(uint32_t rank, ProcessEnd end, int64_t now_ns);
  // A process that spawn() promised did not come to be.
  void on_not_started(uint32_t rank, const std::string& why, int64_t now_ns);

  // What the rank said with its last sign of life of that kind.
  const Heartbeat& heartbeat(uint32_t rank) const { return ranks_[rank].heartbeat; }

  void send(uint32_t rank, const Message& message);
  void kill(uint32_t rank, const std::string& cause);
  // A new process in the place of this rank's, which is ended first if it still lives. Only what
  // becomes of the new one is reported. Nothing once the agent shuts down.
  void respawn(uint32_t rank, int64_t now_ns);
  void shut_down(int64_t now_ns);
  bool is_ending() const { return phase_ != Phase::kRunning; }

  // Nobody was listened to in between: the ranks' silence was ours.
  void was_busy(int64_t from_ns, int64_t to_ns);

  void on_time(int64_t now_ns);
  int64_t deadline_ns() const;
  bool all_gone() const;

 private:
  enum class State : uint8_t { kAbsent, kStarting, kReady, kGone };
  struct Rank {
    State state = State::kAbsent;
    int64_t heard_ns = 0;  // Last sign of life; start time until the first.
    Heartbeat heartbeat{};
    std::string tail;   // The last lines on stderr, of the open or the last cell.
    std::string cause;  // Why we ended it, if we did.
    bool captures = false;
    bool respawns = false;  // Ended to make room for its next process.
  };
  enum class Phase : uint8_t { kRunning, kAsked, kTermed, kKilled };

  void spawn(uint32_t rank, int64_t now_ns);
  void keep_tail(Rank& rank, const std::string& text);
  static std::string describe(const Rank& rank, ProcessEnd end);
  void signal_all(int signal_number);
  bool is_overdue(uint32_t rank, int64_t limit_ns, int64_t now_ns);

  AgentPorts& ports_;
  AgentEvents& events_;
  AgentTimers timers_;
  Open open_;  // What to start,
  Job job_;    // and what its ranks share.
  std::vector<Rank> ranks_;
  Phase phase_ = Phase::kRunning;
  int64_t phase_until_ns_ = INT64_MAX;
};

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_AGENT_H_
