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
#include "lib/control/journal.h"
#include "lib/control/late.h"
#include "lib/control/log/cell_logs.h"
#include "lib/control/merge/engine.h"
#include "lib/control/notes.h"
#include "lib/control/stack_text.h"
#include "lib/control/talk/comm_table.h"
#include "lib/control/talk/prompts.h"
#include "lib/control/target.h"

namespace sk::control {

struct ControllerTimers {
  AgentTimers agent;
  // From the first interrupt to the cell's end without the ranks that do not stop; a session may
  // say another. At a third of it ranks get SIGINT again, at two thirds they are asked where they
  // are. A rank that only cleans up for longer comes back by itself, so a short time costs little,
  // and one who interrupts wants an answer within two seconds.
  int64_t give_up_ns = 1'500'000'000;
  int64_t death_grace_ns = 150'000'000;  // Survivors' time to answer, once a rank died in a cell.
  int64_t absent_ns = 300'000'000;       // From a rank's end of a cell until the others are told.
  int64_t answer_ns = 10'000'000'000;    // Longest wait for completion and the like.
  int64_t snapshot_ns = 250'000'000;     // Then a rank's I/O thread is asked too.
  int64_t stack_ns = 400'000'000;        // Longest wait for stacks, which I/O threads give.
};

// What the system says of a rank's process, and of this host.
struct RankFacts {
  int64_t pid = 0;  // 0: there is none.
  uint64_t resident_bytes = 0;
};
struct HostFacts {
  std::string name;
  int64_t controller_pid = 0;
  uint32_t cpus = 0;
  uint64_t memory_bytes = 0;
  uint64_t memory_available_bytes = 0;
};

class ControllerPorts : public AgentPorts {
 public:
  virtual void send_event(const Event& event) = 0;
  // Ports that nobody has used; those of before may be let go. SK_ERR_SYSTEM: there are none.
  virtual Result<ServerPorts> hold_ports() = 0;
  virtual RankFacts rank_facts(uint32_t rank) = 0;
  virtual HostFacts host_facts() = 0;
  // Where the logs of cells are put; a little memory unless the host has something larger.
  virtual Chunks& log_chunks() { return memory_chunks_; }

 private:
  MemoryChunks memory_chunks_{1024};
};

class Controller : private AgentEvents {
 public:
  Controller(ControllerPorts& ports, ControllerTimers timers, Job job);

  void on_session_message(Message message, int64_t now_ns);
  // The front end is gone: ranks live on for the lease that it asked for.
  void on_session_lost(int64_t now_ns);
  // Another took its place: it is welcomed and told what it missed. Ranks that are lost begin
  // again: who starts a kernel anew gets one that runs cells.
  void on_session_attached(int64_t now_ns);
  // Nobody will: what would have started one is gone.
  void on_nobody_left(int64_t now_ns);

  // What the process that ranks are forked from says while it loads.
  void on_template_note(std::string text, int64_t now_ns);

  Agent& agent() { return agent_; }
  uint64_t last_cell() const { return last_cell_; }
  uint32_t rank_count() const { return static_cast<uint32_t>(ranks_.size()); }

  void on_time(int64_t now_ns);
  int64_t deadline_ns() const;

  // Shut down, and no rank is left.
  bool over() const { return ending_ && agent_.all_gone(); }

 private:
  enum class RankState : uint8_t { kStarting, kReady, kStuck, kDead };
  struct Rank {
    RankState state = RankState::kStarting;
    uint32_t incarnation = 0;  // How often it was revived.
    uint64_t seq = 0;          // Of its last record.
    uint64_t cell = 0;         // That it was given last; it runs while it is pending or stuck.
    int64_t cell_start_ns = 0;
    int64_t cell_end_ns = 0;
    int64_t execution_count = 0;  // Of the cell; 0: a hidden one.
    int64_t comm_start_ns = 0;    // When it was given the first of the comm's messages it handles.
    std::string language;
    // Interrupted because another died, and not heard of yet: no cell starts before that is clear.
    int64_t settles_until_ns = 0;
    int64_t settles_at_most_ns = 0;  // Where it is about to end.
    bool asked_twice = false;
    uint64_t left_cell = 0;  // The interrupted one whose code it has left.
    bool lingers = false;    // Other threads of it use communicators, whatever cell runs.
    std::string dead_cause;  // Or how it was stuck,
    bool told = false;       // which a cell has shown in full.
  };
  // Why a cell failed on a rank.
  struct Cause {
    int64_t time_ns;  // When the error left the cell's code.
    std::string text;
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
    uint32_t interrupts = 0;        // As its ranks count them: those that are no repetition.
    uint32_t presses = 0;           // Those of them that the user sent,
    uint32_t presses_answered = 0;  // and that were settled by an answer to what a rank asked.
    std::set<uint32_t> heard = {};  // Ranks whose code has heard the last one: it has asked since.
    bool repeated = false;          // The last one, for who may not have heard it.
    bool asked_where = false;
    int64_t interrupted_ns = 0;
    int64_t judge_ns = 0;                       // Not before: some were about to end the cell.
    std::map<uint32_t, RankStack> stacks = {};  // Of those that do not stop.
    std::map<uint32_t, Cause> causes = {};      // Of those that failed.
    int64_t tell_absent_ns = INT64_MAX;         // When ranks hear who will not come.
    std::string reply;                          // JSON of the lowest rank.
  };
  struct Question {
    uint32_t rank = 0;
    int64_t until_ns = 0;
    int64_t snapshot_at_ns = 0;
    Ask ask;
  };
  struct StackQuestion {
    std::set<uint32_t> waiting;
    std::map<uint32_t, RankStack> stacks;
    int64_t until_ns;
  };

  // AgentEvents.
  void rank_ready(uint32_t rank, const Hello& hello, int64_t now_ns) override;
  void rank_message(uint32_t rank, Message message, int64_t now_ns) override;
  void rank_dead(uint32_t rank, const std::string& cause, int64_t now_ns) override;

  void on_open(const Open& open, int64_t now_ns);
  void on_execute(Execute request, int64_t now_ns);
  void on_interrupt(int64_t now_ns);
  void on_cancel(uint64_t cell, int64_t now_ns);
  void press(int64_t now_ns);
  void on_ask(Ask ask, int64_t now_ns);
  void on_output(uint32_t rank, Output output, int64_t now_ns);
  void on_done(uint32_t rank, const Done& done, int64_t now_ns);
  void on_heartbeat(uint32_t rank, const Heartbeat& beat, int64_t now_ns);
  void on_reply(uint32_t rank, Reply reply);
  void on_regroup(const Regroup& request);
  void on_ask_stack(const Ask& ask, int64_t now_ns);
  void on_stack(uint32_t rank, const Reply& reply);
  void end_stack_question(uint64_t request);
  void forget_stacks_of(uint32_t rank);
  void on_revive(const Ask& ask, int64_t now_ns);
  void on_status(const Ask& ask, int64_t now_ns);
  void on_input_request(uint32_t rank, InputRequest request, int64_t now_ns);
  void on_input_reply(const InputReply& reply, int64_t now_ns);
  void on_session_comm(const Comm& message, int64_t now_ns);
  void on_rank_comm(uint32_t rank, Comm message);

  void start_next(int64_t now_ns);
  void start_cell(Execute request, RankSet target, int64_t now_ns);
  void refuse_cell(const Execute& request, const char* ename, const std::string& why);
  void interrupt_pending(bool by_user, int64_t now_ns);
  void repeat_interrupt();
  void begin_interrupt(int64_t now_ns);
  bool is_answered() const;
  void hear(uint32_t rank, int64_t now_ns);
  void forget_heard(uint32_t rank, int64_t now_ns);
  bool asks_where() const;
  void ask_where(int64_t now_ns);
  std::string stuck_sentence(uint32_t rank) const;
  void give_up_on(const RankSet& stuck, int64_t now_ns);
  void judge_pending(int64_t now_ns);
  void watch_interrupt(int64_t now_ns);
  void let_settle(const RankSet& ranks, int64_t now_ns);
  void watch_settling(int64_t now_ns);
  int64_t settle_deadline() const;
  int64_t interrupt_deadline() const;
  void note_failure(uint32_t rank, const ErrorRecord& error, int64_t time_ns);
  void tell_absent_soon(int64_t now_ns);
  void watch_absent(int64_t now_ns);
  std::vector<Absent::Group> absent_now() const;
  void finish_cell_if_done(int64_t now_ns);
  void drop_queue();
  void abort_cell(uint64_t cell);
  void on_configure(const Configure& settings);
  void on_log_request(const LogRequest& request);
  ViewStyle style_of(const Execute& request) const;
  void start_log(const Execute& request, const RankSet& target);
  void show_late(uint32_t rank, uint64_t cell, const Record& record, int64_t now_ns);
  void emit_late(int64_t now_ns);
  void flush_late();
  void show_all_late(std::vector<Event> events);
  Ranks ranks_now() const;
  void settle_prompts(int64_t now_ns);
  void emit_comm(std::string ranks, Comm message, uint64_t cell);
  void finish_comm_cell(uint64_t cell);
  bool end_in_comm_cell(uint32_t rank, uint64_t cell);
  bool in_comm_cell(uint32_t rank) const;
  void interrupt_comm_cells();
  void forget_talk_of(uint32_t rank, int64_t now_ns);
  void look_after_questions(int64_t now_ns);
  std::string why_not(const RankSet& target) const;
  std::string way_out() const;
  bool starting() const;
  bool must_wait(const Result<RankSet>& target) const;
  void update_group();
  void begin_epoch(bool wanted);
  void regroup_if_wanted();
  RankGroup group_now() const;
  const char* state_name(uint32_t rank) const;
  std::string work_json(uint32_t rank, int64_t now_ns) const;
  void tell_ranks(const RankSet& ranks, int32_t status, std::string text);
  RankSet lost_ranks() const;
  void begin_again(const RankSet& lost, const std::string& why, int64_t now_ns);
  void report_state();
  int64_t give_up_time() const;
  int64_t last_moment() const;
  bool has_left(uint32_t rank) const;
  bool is_ending(uint32_t rank) const;
  void answer(Reply reply);
  void refuse_question(uint64_t request, int32_t status, std::string why);
  static ErrorRecord failure(std::string ename, std::string evalue);
  void emit(Event event);
  void send_now(Event event);
  void end(int64_t now_ns);

  static constexpr uint64_t kOwnQuestion = 0;  // Sessions count theirs from 1.

  ControllerPorts& ports_;
  ControllerTimers timers_;
  const Job job_;
  Agent agent_;
  std::vector<Rank> ranks_;
  std::deque<Execute> queue_;
  std::unique_ptr<Running> running_;
  std::map<uint64_t, Question> questions_;
  Prompts prompts_;
  CommTable comms_;
  std::map<uint64_t, std::set<uint32_t>> comm_cells_;  // Ranks that handle a comm's message.
  std::map<uint64_t, StackQuestion> stack_questions_;
  // Of the group of ranks: counted when a rank is lost, when all are there, and when a rank says
  // that its communicators are over.
  uint64_t epoch_ = 0;
  bool epoch_wanted_ = false;         // A rank waits in a cell for all to meet under it.
  uint64_t regroups_after_cell_ = 0;  // The epoch that ends with the cell that runs; 0: none does.
  RankSet group_missing_;             // As the ranks were told last.
  Configure settings_;                // 0: the default.
  CellLogs logs_;
  LateOutput late_;
  DisplayIds display_ids_;
  uint64_t event_seq_ = 0;
  int32_t reported_state_ = 0;
  int64_t lease_ns_ = 0;
  int64_t lease_until_ns_ = INT64_MAX;
  bool opened_ = false;
  bool notebook_ = false;  // Whoever reads can type magics.
  bool attachable_ = false;
  bool attached_ = true;
  Journal journal_;
  Notes notes_;
  Event open_input_;  // The prompt that waits for an answer; kind NONE: none does.
  uint64_t last_cell_ = 0;
  std::string last_tag_;
  bool ending_ = false;
};

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_CONTROLLER_H_
