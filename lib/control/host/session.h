// The session half of include/sk/exec.h: starts a controller process and speaks with it.
#ifndef SK_LIB_CONTROL_HOST_SESSION_H_
#define SK_LIB_CONTROL_HOST_SESSION_H_

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/control/framing.h"
#include "transport/local/link.h"
#include "transport/local/process.h"

namespace sk::control {

class Session {
 public:
  // `sk_program`: "" searches as the header says.
  static Result<std::unique_ptr<Session>> open(Open open, const std::string& sk_program);
  // With the controller that listens under `name`; `token` is what it was opened with.
  static Result<std::unique_ptr<Session>> attach(const std::string& name, const std::string& token);
  ~Session();

  Result<uint64_t> execute(Execute request);
  Result<uint64_t> ask(Ask ask);
  Status configure(const Configure& settings) { return send(settings); }
  Result<uint64_t> log(LogRequest request);
  // 0: whatever runs, and all that waits.
  Status interrupt(uint64_t cell);
  Status acknowledge(uint64_t cell);
  Status keep(const Note& note);
  Status answer(InputReply reply);
  Result<uint64_t> comm(Comm message);
  // Hands the next event to `take`, before any other thread can poll; one of no kind when the
  // timeout ran out. SK_ERR_BUSY: another thread polls.
  Status poll(int64_t timeout_ms, const std::function<void(Event)>& take);
  int fd() const { return link_.fd(); }
  uint32_t rank_count() const { return rank_count_; }
  // Ends everything; SK_ERR_TIMEOUT when it took force. Once.
  Status close();
  // In its place: as the end of this process would.
  void leave();

 private:
  Session() = default;
  Status send(const Message& message);
  Result<std::optional<Message>> receive(int64_t timeout_ms);
  Result<std::optional<Event>> next_event(int64_t timeout_ms);
  Status wait_for_welcome();
  Status go_on(const Welcome& welcome, const std::string& name);
  void forget_name();

  std::mutex send_mutex_;
  std::mutex poll_mutex_;
  local::Link link_;
  FrameReader reader_;
  local::Process controller_;
  std::string name_;  // Under which the controller listens; "": it does not.
  uint32_t rank_count_ = 0;
  std::atomic<uint64_t> last_cell_{0};
  std::atomic<uint64_t> last_request_{0};
  uint64_t last_seq_ = 0;
  bool attached_ = false;  // Whoever drops it has rescued nothing yet: it goes on for its lease.
  bool over_ = false;      // SK_SESSION_OVER was handed out.
  bool closed_ = false;    // The controller's end of the link is gone.
};

// Where the `sk` program is: SK_PROGRAM, this program, beside this library, PATH.
std::string find_sk_program();

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_HOST_SESSION_H_
