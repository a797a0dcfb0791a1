// The controller: one session's cells, queue, merging and faults, above one agent.
//
// A state machine as the agent is: messages and the time go in, events for the session and wishes
// of the agent go out through ControllerPorts. No clock, socket, thread or process of its own.
#ifndef SK_LIB_CONTROL_CONTROLLER_H_
#define SK_LIB_CONTROL_CONTROLLER_H_

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lib/control/agent.h"
#include "lib/control/merge/engine.h"
#include "lib/control/talk/comm_table.h"
#include "lib/control/talk/prompts.h"
#include "lib/control/target.h"

namespace sk::control {

struct ControllerTimers {
  AgentTimers agent;
  int64_t second_interrupt_ns = 2'000'000'000;  // After the first; ranks get SIGINT again.
  int64_t give_up_ns = 5'000'000'000;           // After the first; the cell ends without the rest.
  int64_t death_grace_ns = 150'000'000;  // Survivors' time to answer, once a rank died in a cell.
  int64_t answer_ns = 10'000'000'000;    // Longest wait for completion and the like.
  int64_t snapshot_ns = 250'000'000;     // Then a rank's I/O thread is asked too.
};

class ControllerPorts : public AgentPorts {
 public:
  virtual void send_event(const Event& event) = 0;
};

class Controller : private AgentEvents {
 public:
  Controller(ControllerPorts& ports, ControllerTimers timers, Job job);

  void on_session_message(Message message, int64_t now_ns);
  // The front end is gone: ranks live on for the lease that it asked for.
  void on_session_lost(int64_t now_ns);

  Agent& agent() { return agent_; }

  void on_time(int64_t now_ns);
  int64_t deadline_ns() const;

  // Shut down, and no rank is left.
  bool over() const { return ending_ && agent_.all_gone(); }

 private:
  enum class RankState : uint8_t { kStarting, kReady, kStuck, kDead };
  struct Rank {
    RankState state = RankState::kStarting;
    uint64_t seq = 0;  // Of its last record.
    std::string dead_cause;
    bool mid_line[3] = {};  // Late text of stream i ended without a newline.
  };
  struct Running {
    Execute request;
    RankSet target;
    std::set<uint32_t> pending;
    MergeEngine engine;
    std::vector<RankFailure> failures;  // Those that no rank could report.
    std::vector<RankTime> times;        // Of the ranks that ended it, as they did.
    bool failed = false;
    bool lost_a_rank = false;
    uint32_t interrupts = 0;
    int64_t interrupted_ns = 0;
    std::string reply;  // JSON of the lowest rank.
  };
  struct Question {
    uint32_t rank = 0;
    int64_t until_ns = 0;
    int64_t snapshot_at_ns = 0;
    Ask ask;
  };

  // AgentEvents.
  void rank_ready(uint32_t rank, int64_t now_ns) override;
  void rank_message(uint32_t rank, Message message, int64_t now_ns) override;
  void rank_dead(uint32_t rank, const std::string& cause, int64_t now_ns) override;

  void on_open(const Open& open, int64_t now_ns);
  void on_execute(Execute request, int64_t now_ns);
  void on_interrupt(int64_t now_ns);
  void on_ask(Ask ask, int64_t now_ns);
  void on_output(uint32_t rank, Output output, int64_t now_ns);
  void on_done(uint32_t rank, const Done& done, int64_t now_ns);
  void on_reply(uint32_t rank, Reply reply);
  void on_input_request(uint32_t rank, InputRequest request, int64_t now_ns);
  void on_input_reply(const InputReply& reply, int64_t now_ns);
  void on_session_comm(const Comm& message);
  void on_rank_comm(uint32_t rank, Comm message);

  void start_next(int64_t now_ns);
  void start_cell(Execute request, RankSet target, int64_t now_ns);
  void refuse_cell(const Execute& request, const std::string& why);
  void interrupt_pending(int64_t now_ns);
  void give_up_on_pending(const std::string& why, int64_t now_ns);
  void finish_cell_if_done(int64_t now_ns);
  void drop_queue();
  Ranks ranks_now() const;
  void show_beside(uint32_t rank, uint64_t cell, const Record& record);
  void settle_prompts(int64_t now_ns);
  void emit_comm(std::string ranks, Comm message, uint64_t cell);
  void finish_comm_cell(uint64_t cell);
  bool end_in_comm_cell(uint32_t rank, uint64_t cell);
  bool in_comm_cell(uint32_t rank) const;
  void interrupt_comm_cells();
  void forget_talk_of(uint32_t rank, int64_t now_ns);
  void look_after_questions(int64_t now_ns);
  std::string why_not(const RankSet& target) const;
  bool starting() const;
  void report_state();
  int64_t give_up_time() const;
  void answer(Reply reply);
  void refuse_question(uint64_t request, int32_t status, std::string why);
  static ErrorRecord failure(std::string ename, std::string evalue);
  void emit(Event event);
  void end(int64_t now_ns);

  ControllerPorts& ports_;
  const ControllerTimers timers_;
  const Job job_;
  Agent agent_;
  std::vector<Rank> ranks_;
  std::deque<Execute> queue_;
  std::unique_ptr<Running> running_;
  std::map<uint64_t, Question> questions_;
  Prompts prompts_;
  CommTable comms_;
  std::map<uint64_t, std::set<uint32_t>> comm_cells_;  // Ranks that handle a comm's message.
  uint64_t event_seq_ = 0;
  int32_t reported_state_ = 0;
  int64_t lease_ns_ = 0;
  int64_t lease_until_ns_ = INT64_MAX;
  bool opened_ = false;
  bool ending_ = false;
};

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_CONTROLLER_H_
