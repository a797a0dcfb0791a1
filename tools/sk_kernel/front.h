// The Jupyter front end: requests of a notebook in, cells on ranks out, events back as messages.
//
// One thread serves everything but the heartbeat. It never waits for a rank: cells run in the
// session, so control, completion and history are answered while one does. The session is reached
// through the C ABI alone.
#ifndef SK_TOOLS_SK_KERNEL_FRONT_H_
#define SK_TOOLS_SK_KERNEL_FRONT_H_

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "sk/exec.h"
#include "sk/output.h"
#include "tools/sk_kernel/channels.h"
#include "tools/sk_kernel/comms.h"
#include "tools/sk_kernel/history.h"
#include "tools/sk_kernel/magic_facts.h"
#include "tools/sk_kernel/magic_time.h"
#include "tools/sk_kernel/magics.h"
#include "tools/sk_kernel/preload.h"
#include "tools/sk_kernel/usage.h"
#include "tools/sk_kernel/wire.h"

namespace sk::kernel {

// What the front end knows of its language; the kernelspec says it.
struct Language {
  std::string name = "python";
  std::string version = "3";
};

// Starts ranks, or finds those of a front end that was lost; the caller owns the session.
struct OpenedSession {
  sk_session* session = nullptr;
  int32_t ranks = 0;
  bool attached = false;  // It was there before: another front end had it.
};
using OpenSession = std::function<Result<OpenedSession>(const Names& preload)>;

class Front {
 public:
  // The channels outlive the front end. `signal_fd` is a signalfd of SIGINT and SIGTERM.
  // `why_no_preload`: not "" where ranks cannot share modules.
  Front(Channels& channels, OpenSession open, Wire wire, Language language, int32_t rank_count,
        int signal_fd, PreloadChoice preload, std::string why_no_preload);

  // Serves until it is told to shut down (0), or the ranks' controller is gone (1).
  int run();

  // The session that it has open, for the caller to close; or null.
  sk_session* session() const { return session_; }

 private:
  // A cell that was sent while another one ran.
  struct Waiting {
    Message request;
    std::string note;  // Under which the session keeps it for the next front end; "": it does not.
  };
  struct Cell {
    Message request;
    std::string note;
    int64_t count = 0;  // Its execution count.
    bool stores = true;
    bool silent = false;
    Json error;  // The content of its error, once it came.
    Json payload = Json::array();
    CellPlan plan;
    size_t calls_begun = 0;  // Of the plan's.
    bool code_begun = false;
    std::function<void()> then;    // Once the action that runs on the ranks is done.
    Json answer = Json::object();  // Of the reply rank: user_expressions, payload.
    // What magics before the code have shown: a clear by the step that runs is not meant for it.
    struct Output {
      std::string type;
      Json content;
      Json metadata;
    };
    std::vector<Output> shown;
    size_t shown_before = 0;  // How many of them are of earlier steps.
    bool adopted = false;     // A lost front end had begun it.
    bool collects_facts = false;
    bool shows_progress = false;  // Of the start that it waits for.
    bool asks_language = false;   // Whether it has the magic that may be a slip.
    std::vector<RankFacts> facts;
  };
  struct Question {
    Message request;
    std::string code;
    MagicNames magics;  // Of a completion: ours.
  };

  void serve_channel(zmq::socket_t& socket);
  void handle(zmq::socket_t& socket, Message message);
  void refuse(zmq::socket_t& socket, const Message& message);
  void handle_subscription();
  void handle_signal();
  bool parent_is_gone() const;

  // Requests. Each publishes busy, replies, publishes idle, unless it goes on later.
  void on_execute(Message message);
  void on_question(Message message, int32_t kind);
  void on_shutdown(zmq::socket_t& socket, const Message& message);
  void on_interrupt(zmq::socket_t& socket, const Message& message);
  void on_debug(zmq::socket_t& socket, const Message& message);
  void on_usage(zmq::socket_t& socket, const Message& message);
  void on_connect(zmq::socket_t& socket, const Message& message);
  void on_subshell(zmq::socket_t& socket, const Message& message);
  void on_unknown(zmq::socket_t& socket, const Message& message);
  bool holds(zmq::socket_t& socket, const Message& message) const;
  void handle_held();
  Json kernel_info() const;

  // A cell is its magics, one after the other, then its code: steps. A step either is done when
  // its function returns, or ends with an event of the session.
  void start_next();
  void begin_cell(Waiting waiting);
  void advance_cell();
  void run_on_ranks(const std::string& code, int32_t kind);
  void act_on_ranks(const char* action, std::function<void()> then);
  void step_done(const sk_event& event);
  void ask_language();
  bool is_denial(const sk_event& event) const;
  void fail_cell(const std::string& ename, const std::string& evalue);
  void finish_cell(int32_t status);
  void abort_queue();
  void reply_to_cell(const Cell& cell, Json content);

  // Magics (front_magics.cpp). False: the step goes on.
  bool do_magic(const MagicCall& call);
  void ask_facts();
  // Verbs that ask the session (front_verbs.cpp).
  static bool looks_only(const CellPlan& plan);
  bool ask_session(const MagicCall& call);
  void ask_aside(const Message& message, const CellPlan& plan);
  sk_status send_verb(const MagicCall& call, uint64_t* request);
  Json answer_of(const std::string& name, const sk_event& event) const;
  void give_up_asked();

  // How output is tagged, and output of before (front_log.cpp).
  struct LogRead;
  bool set_tag(const std::vector<std::string>& words);
  bool configure_session();
  bool read_log(const MagicCall& call);
  void ask_log(const std::shared_ptr<LogRead>& read);
  void take_log(const std::shared_ptr<LogRead>& read, const sk_event& event);
  void take_display(const std::shared_ptr<LogRead>& read, const sk_event& event);

  // Modules that ranks share (front_preload.cpp).
  void on_template_note(const Json& json);
  void show_progress();
  std::string progress_line() const;
  void hide_progress();
  void show_preload();
  bool set_preload(const std::vector<std::string>& words);
  void note_start();
  bool set_seed(const std::vector<std::string>& words);

  void shut_ranks_down();
  void reconnect();
  bool open_session();
  void show_text(const std::string& markdown, const std::string& plain);
  void show(Json data, Json metadata = Json::object());
  void say(const std::string& line, const char* end = "\n");

  // Input and comms (front_talk.cpp).
  void on_prompt(const sk_event& event);
  void on_input_reply(const Message& message);
  bool on_comm(const Message& message);
  void on_rank_comm(const sk_event& event);
  void end_comm_cell(uint64_t cell);
  void remember_parent(uint64_t cell, const Json& header);

  // A session that another front end had before (front_attach.cpp).
  std::string tag_of(const Cell& cell) const;
  void adopt_cell(const sk_event& event);
  void on_attached(const sk_event& event);
  bool may_hear_session() const;
  bool catches_up() const { return attached_ && !caught_up_; }
  // What nobody may have read.
  void meet(const Message& message);
  void point_to_log(const Cell& cell);
  void tell_notices(Cell& cell);
  // What the next front end would lack: cells that wait, and the history.
  void keep(const std::string& name, const Json& note);
  void forget(std::string* note);
  void keep_waiting(Waiting* waiting);
  void keep_line(int64_t line, const std::string& code, const std::string& output);
  void on_note(const sk_event& event);
  void take_waiting(const std::string& name, const Json& note);
  void send_reply(std::vector<std::string> parts);
  void send_unsent();

  // Events of the session. False: it is over.
  bool drain_events();
  void on_event(const sk_event& event);
  void on_display(const sk_event& event, const Json& parent);
  void on_answer(const sk_event& event);
  void answer(const Question& question, const sk_event& event);
  void answer_completion(const Question& question, const sk_event* event);
  void on_rank(const sk_event& event);
  const Json& parent_of(uint64_t cell) const;

  void reply(zmq::socket_t& socket, const Message& to, const std::string& type,
             const Json& content);
  void publish(const std::string& type, const Json& parent, const Json& content,
               const Json& metadata = Json::object(), const std::vector<std::string>& buffers = {});
  void keep_what_magics_show(const std::string& type, const Json& content, const Json& metadata);
  void publish_status(const char* state, const Json& parent);

  Channels& channels_;
  const OpenSession open_;
  sk_session* session_ = nullptr;  // Null where ranks could not be started, or after %shutdown.
  std::string why_no_session_;
  Wire wire_;
  const Language language_;
  int32_t rank_count_;
  const int signal_fd_;
  int session_fd_ = -1;
  std::deque<Waiting> queue_;  // Cells that wait for the one that runs.
  std::optional<Cell> current_;
  uint64_t current_id_ = 0;
  std::map<uint64_t, Json> parents_;  // Of the newest cells: late output is shown under them.
  std::map<uint64_t, Question> questions_;
  std::map<uint64_t, std::function<void(const sk_event&)>> asked_;  // What is done with the answer.
  // Questions that were sent along with a cell: answered after it, as their order has it.
  std::deque<Message> held_;
  std::chrono::steady_clock::time_point cell_began_;
  uint64_t cells_begun_ = 0;
  uint64_t held_behind_ = 0;  // The cell among them.
  std::set<std::string> subshells_;
  Comms comms_;
  UsageMeter usage_;
  uint64_t prompt_ = 0;         // The open one, or 0,
  std::string prompt_message_;  // and the id of its input_request.
  History history_;
  int64_t execution_count_ = 0;
  CellTimes times_;           // Of the last cell that ran code.
  int32_t tag_ = SK_TAG_SET;  // Of this session and those after it.
  PreloadChoice preload_;     // Of the next start.
  const std::string why_no_preload_;
  Names preload_now_;                        // What the ranks were started with,
  std::optional<PreloadNote> preload_note_;  // and what the template said of it last.
  std::set<std::string> preload_told_;       // Sentences that somebody has read.
  std::chrono::steady_clock::time_point opened_at_;
  bool leaving_ = false;
  bool attached_ = false;    // To a session that was there before,
  bool told_state_ = false;  // and how far it has told what we missed.
  bool caught_up_ = false;
  std::optional<std::chrono::steady_clock::time_point> subscribed_at_;
  uint64_t waited_ = 0;                 // Cells that had to wait: counts their notes.
  size_t taken_over_ = 0;               // Of queue_: cells that a lost front end had accepted.
  uint64_t not_kept_ = 0;               // Those that were too long for a note.
  uint64_t dropped_ = 0;                // Messages that were not signed as ours, or no messages.
  std::string notices_;                 // For the reader of the next cell.
  std::map<std::string, int64_t> met_;  // Clients: another's cell that ran when they came, or 0.
  struct Unsent {
    std::vector<std::string> parts;
    std::chrono::steady_clock::time_point until;
  };
  std::vector<Unsent> unsent_;  // Replies to clients that have not connected again yet.
};

// Conversions between bytes of UTF-8 and code points, as the protocol counts.
uint64_t code_points_in(std::string_view text);
uint64_t byte_of_code_point(std::string_view text, uint64_t code_point);

// A MIME bundle as notebooks keep it: text as text, JSON as JSON, everything else as base64.
Json bundle(const sk_mime* mimes, uint64_t count);

}  // namespace sk::kernel

#endif  // SK_TOOLS_SK_KERNEL_FRONT_H_
