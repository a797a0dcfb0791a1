// Ranks forked from one warmed process, the template: the controller's side.
//
// The template is the rank program itself, started once with SK_TEMPLATE_FD set; it imports what
// every rank needs and then serves sk_worker_template(). It is started by the first request and
// stays for later ones; when it dies, ranks that it forked live on, and the next request starts
// another. Its failures are never passed over: whoever was to be forked is reported with its last
// words. One thread, with the poller of the controller's host.
#ifndef SK_LIB_CONTROL_HOST_RANK_TEMPLATE_H_
#define SK_LIB_CONTROL_HOST_RANK_TEMPLATE_H_

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/status.h"
#include "transport/local/fork_wire.h"
#include "transport/local/poller.h"
#include "transport/local/process.h"

namespace sk::control {

class RankTemplate {
 public:
  // What became of a request: a process, a child of this one, or why there is none.
  struct Outcome {
    uint32_t rank = 0;
    local::Process process;
    std::string why;  // "" with a process.
  };

  // Poller tokens are `first_token` + n * `token_step`.
  RankTemplate(local::Poller& poller, uint64_t first_token, uint64_t token_step)
      : poller_(poller), first_token_(first_token), token_step_(token_step) {}
  ~RankTemplate();

  // Forks what `spec` describes from a template of spec.argv, as soon as pump() can.
  Status request(uint32_t rank, const local::SpawnSpec& spec);
  bool idle() const { return waiting_.empty() && sent_.empty(); }

  // Does what can be done without waiting; call it after requests and when a token is ready.
  std::vector<Outcome> pump();
  // What the template has said since the last call (sk_worker_template_note()).
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }
  // Ends the template, and thereby every request that has no outcome yet.
  void kill() const;

 private:
  struct Request {
    std::vector<std::string> argv;
    local::ForkRequest fork;
  };

  bool serves(const Request& request) const;
  Status start();
  void send_what_fits(std::vector<Outcome>* outcomes);
  void read_replies(std::vector<Outcome>* outcomes);
  void adopt_forked(std::vector<Outcome>* outcomes);
  void read_output();
  void fail_all(const std::string& why, std::vector<Outcome>* outcomes);
  void end_if_dead(std::vector<Outcome>* outcomes);
  void reset();

  local::Poller& poller_;
  const uint64_t first_token_;
  const uint64_t token_step_;
  std::deque<Request> waiting_;                  // Not sent yet.
  std::vector<uint32_t> sent_;                   // Ranks without an outcome.
  std::map<uint32_t, local::ForkReply> forked_;  // Of them, those of a batch that is not done.
  uint64_t descriptors_ = 0;                     // As SpawnSpec says.

  // Of the template that runs; without one, process_ has no pid.
  local::Process process_;
  local::Fd socket_;
  local::Fd output_;  // Read end of its descriptors 1 and 2.
  std::vector<std::string> argv_;
  std::vector<std::string> env_;
  std::string tail_;  // What it wrote last.
  std::vector<std::string> notes_;
  size_t batch_ = 0;  // Requests of the batch that is open.
  bool ready_ = false;
};

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_HOST_RANK_TEMPLATE_H_
