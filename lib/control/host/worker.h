// The worker half, include/sk/worker.h: a rank's link to its agent and the I/O thread behind it.
//
// One mutex guards all state that both threads touch; neither holds it while it waits. The I/O
// thread runs no code of the language and blocks all signals, so an interrupt meets the main
// thread. While the main thread waits for a request it reads the link itself, and the I/O thread
// sleeps: a cell that is over within 20 ms, of hundreds of ranks on few cores, wakes one thread
// each.
#ifndef SK_LIB_CONTROL_HOST_WORKER_H_
#define SK_LIB_CONTROL_HOST_WORKER_H_

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "lib/base/status.h"
#include "lib/control/framing.h"
#include "lib/control/host/collectives.h"
#include "lib/control/host/shared_watch.h"
#include "lib/control/host/stack_probe.h"
#include "lib/control/talk/snapshot.h"
#include "transport/local/link.h"

namespace sk::control {

inline constexpr uint64_t kBatchBytes = 32 * 1024;  // Of records; then they go out at once.
inline constexpr uint64_t kDisplayBytesMax = 64ull << 20;
// Captured output is gathered so long; also how long a cell may run before the I/O thread is woken.
inline constexpr int64_t kFlushNs = 20'000'000;
inline constexpr int64_t kHeartbeatNs = 500'000'000;
inline constexpr char kIoThreadName[] = "sk-worker-io";

struct WorkerConfig {
  bool capture = false;
  bool sigint = false;
  bool event_loop = false;  // Of the language: it is woken, and gets SIGINT only if that fails.
  std::string language;
  StackProbeConfig stacks;
  std::function<Collectives*()> collectives;       // Null while the process has none.
  const volatile int32_t* signal_waits = nullptr;  // As sk_worker_config.signal_waits.
};

class Worker {
 public:
  static Result<std::unique_ptr<Worker>> join(const WorkerConfig& config);
  // True in a process forked from this one, false where this is no template.
  static Result<bool> serve_template();
  // What a template says while it loads; nothing where this is none.
  static Status note_template(std::string_view text);
  ~Worker();

  using Request = std::variant<std::monostate, Execute, Ask, Shutdown, Comm>;
  // monostate: the timeout ran out, or a signal came.
  Result<Request> next(int64_t timeout_ms);

  Status stream(uint32_t stream, std::string_view text);
  Status display(DisplayRecord display);
  Status fail(ErrorRecord error);
  Status code_ended();
  Status threads(uint32_t count);
  // Of the calling thread; see sk_worker_output_cell().
  Status output_cell(uint64_t cell);
  Status done(uint32_t status);
  Status reply(Reply reply);
  Status cell_reply(std::string json);
  Status comm(Comm message);
  // As sk_worker_input(); nullopt: the timeout ran out or a signal came. No prompt: withdraws.
  Result<std::optional<InputReply>> input(std::optional<std::string> prompt, bool password,
                                          int64_t timeout_ms);
  // Of a language with an event loop: the descriptors that wake it, for a request and an interrupt.
  Result<std::pair<int, int>> event_fds() const;
  // As sk_worker_interrupted().
  Result<uint64_t> interrupted();
  Status snapshot(const std::string& root, std::vector<Snapshot::Name> names);
  RankGroup group() const;
  // As sk_worker_regroup().
  Status regroup(uint64_t epoch, int64_t timeout_ms);
  bool cancelled() const { return how_cancelled() != 0; }
  // As sk_worker_cancelled().
  int32_t how_cancelled() const { return cancelled_.load(std::memory_order_relaxed); }
  // Sends what is queued, at most 2 s, and ends the I/O thread.
  Status leave();

 private:
  static constexpr int32_t kCancelled = 1, kSignalled = 2;

  explicit Worker(const WorkerConfig& config) : config_(config), main_(pthread_self()) {}

  void run_io();
  Heartbeat sign_of_life() const;
  void wait_for_io();
  bool wait_for_request(int64_t until_ns);
  void read_link();
  void show_stacks();
  void handle(Message message);
  void interrupt(const Interrupt& interrupt);
  void refuse_cell(uint64_t cell, std::string why);
  void signal_main();
  void signal_late(int64_t now_ns);
  void stay_readable();
  void take_group(RankGroup group);
  void apply_absent();
  Collectives* collectives() const { return config_.collectives ? config_.collectives() : nullptr; }
  bool lingers() const;
  void show_stack(uint64_t request);
  Status check_open() const;
  Status emit(Record record, uint64_t bytes);
  uint64_t cell_of_output() const;
  void send_alone(Record record);
  void append_stream(uint32_t stream, std::string_view text);
  bool drain_capture(size_t limit = SIZE_MAX);
  bool watches_capture() const { return !waits_ || capture_news_; }
  bool is_main() const { return pthread_equal(main_, pthread_self()) != 0; }
  Status send_captured();
  void queue_records();
  void flush_records();
  void queue(const Message& message);
  void send(const Message& message);
  void lose_link();
  Status wait_for_room(std::unique_lock<std::mutex>& lock);
  Status refuse_output();
  Status ask_for_input(std::optional<std::string> prompt, bool password);
  bool asks_already(const std::string& prompt, bool password) const;
  Status end_input();
  void take_input_reply(InputReply reply);
  uint64_t queued() const { return pending_bytes_ + link_.queued_bytes(); }

  const WorkerConfig config_;
  const pthread_t main_;
  const pid_t main_tid_ = gettid();
  mutable std::mutex mutex_;
  std::condition_variable space_;
  local::Link link_;
  std::mutex read_mutex_;  // Held by who reads the link, until all of it is handled; before mutex_.
  FrameReader reader_;     // Under read_mutex_.
  local::Fd capture_[2];
  local::Fd io_wakeup_;         // Wakes the I/O thread,
  local::Fd request_wakeup_;    // and this one sk_worker_next().
  local::Fd interrupt_wakeup_;  // Wakes a language's event loop.
  SharedWatch watch_;
  std::deque<Request> requests_;
  std::deque<uint64_t> stacks_asked_;  // For the I/O thread.
  std::vector<Record> pending_;
  uint64_t pending_bytes_ = 0;
  int64_t gate_ns_ = 0;  // Until then records are gathered; then they go out at once.
  int64_t heartbeat_at_ns_ = 0;
  int64_t end_collectives_at_ns_ = INT64_MAX;
  int64_t signal_at_ns_ = INT64_MAX;  // An event loop that has not answered by then gets SIGINT;
  uint32_t signals_left_ = 0;         // in a row;
  int64_t main_cpu_ns_ = 0;           // what its thread had used when it was last looked at.
  bool interrupt_untaken_ = false;    // By interrupted().
  bool heard_ = false;                // The last one has reached the cell's code, or will.
  bool refuses_output_ = false;       // Which waits for room, until the program hears of the last.
  bool waits_ = false;                // The main thread, in next().
  bool capture_news_ = false;         // Bytes that came while it waited; the I/O thread looks.
  uint64_t interrupted_early_ = 0;    // A cell that it is to refuse; 0: none.
  uint32_t interrupts_ = 0;           // Of the open cell, but for repetitions,
  uint32_t interrupts_heard_ = 0;     // and those that its code is known to have heard.
  uint64_t seq_ = 0;
  uint64_t open_cell_ = 0;
  int64_t code_ended_ns_ = 0;  // 0: not said.
  uint32_t threads_ = 0;       // That the last cell has begun and that go on.
  int64_t began_ns_ = 0;       // The open cell, by the clock,
  int64_t cpu_ns_ = 0;         // and what this process had used by then.
  uint64_t last_cell_ = 0;
  std::string cell_reply_;
  local::Fd input_wakeup_;  // Wakes input().
  std::mutex input_mutex_;  // Held by the thread that is in input().
  uint64_t input_count_ = 0;
  std::optional<InputRequest> input_open_;
  std::optional<InputReply> input_reply_;
  Snapshot snapshot_;
  RankGroup group_;
  bool group_changed_ = false;          // Which next() has not told yet.
  std::condition_variable group_news_;  // For regroup().
  Absent absent_;                       // Of the cell that it names.
  bool welcome_ = false;
  bool lost_ = false;
  bool leaving_ = false;
  std::atomic<int32_t> cancelled_{0};
  StackProbe probe_;  // The I/O thread's alone, once it runs.
  std::thread io_;
};

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_HOST_WORKER_H_
