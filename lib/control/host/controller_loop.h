// The controller's loop: Controller with real links, processes and time behind its ports.
#ifndef SK_LIB_CONTROL_HOST_CONTROLLER_LOOP_H_
#define SK_LIB_CONTROL_HOST_CONTROLLER_LOOP_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/control/controller.h"
#include "lib/control/framing.h"
#include "lib/control/host/chunk_file.h"
#include "lib/control/host/door.h"
#include "lib/control/host/facts.h"
#include "lib/control/host/rank_template.h"
#include "transport/local/link.h"
#include "transport/local/poller.h"
#include "transport/local/process.h"

namespace sk::control {

class ControllerHost : public ControllerPorts {
 public:
  ControllerHost(local::Poller poller, local::Link session, local::Fd listener, Job job,
                 local::Fd secret)
      : poller_(std::move(poller)),
        session_(std::move(session)),
        secret_(std::move(secret)),
        template_(poller_, token(Source::kTemplate, 0), kTokenStep),
        door_(poller_, std::move(listener), token(Source::kStranger, 0), kTokenStep),
        controller_(*this, ControllerTimers{}, std::move(job)) {}

  Status run();

  // ControllerPorts.
  Status spawn(uint32_t rank, const std::vector<std::string>& argv,
               const std::vector<std::string>& env, const std::string& cwd) override;
  void send(uint32_t rank, const Message& message) override;
  void signal(uint32_t rank, int signal_number) override;
  void hand_over_capture(uint32_t rank) override;
  bool has_unread(uint32_t rank) override;
  bool is_starved(uint32_t rank) override;
  Result<ServerPorts> hold_ports() override;
  void send_event(const Event& event) override;
  RankFacts rank_facts(uint32_t rank) override;
  HostFacts host_facts() override { return control::host_facts(); }
  Chunks& log_chunks() override { return log_; }

 private:
  // What a token of the poller stands for, and of which rank.
  enum class Source : uint64_t {
    kSession,
    kLink,
    kExit,
    kStdout,
    kStderr,
    kTemplate,
    kDoor,
    kStranger,
    kNotebookServer
  };
  static constexpr uint64_t kTokenStep = 16;
  static uint64_t token(Source source, uint32_t rank) {
    return rank * kTokenStep + static_cast<uint64_t>(source);
  }
  static bool is_from(const local::Poller::Ready& ready, Source source) {
    return static_cast<Source>(ready.token % kTokenStep) == source;
  }
  static uint32_t rank_of(const local::Poller::Ready& ready) {
    return static_cast<uint32_t>(ready.token / kTokenStep);
  }

  struct RankProcess {
    local::Process process;
    local::Link link;
    FrameReader reader;
    local::Fd capture[2];       // Read ends of its descriptors 1 and 2.
    bool capture_here = false;  // We read them, not the rank.
    bool forking = false;       // The template has not answered yet.
    bool reading = false;       // In the poller.
    bool writing = false;
  };

  void take_in(local::Link link);
  void watch_notebook_server();
  void on_session_ready(const local::Poller::Ready& ready);
  void on_ready(const local::Poller::Ready& ready);
  void read_links(std::vector<uint32_t> ranks, int64_t began_ns);
  void read_link(uint32_t rank);
  void read_capture(uint32_t rank, int which);
  void on_exit(uint32_t rank);
  Status watch(uint32_t rank);
  void pump_template();
  void drop(uint32_t rank);
  void close_link(uint32_t rank);
  void lose_session();
  void flush_session();
  void flush_rank(uint32_t rank);
  void pause_or_resume();

  local::Poller poller_;
  local::Link session_;
  local::Fd secret_;
  FrameReader session_reader_;
  bool session_writing_ = false;
  std::vector<std::unique_ptr<RankProcess>> ranks_;
  RankTemplate template_;
  Door door_;
  local::Fd notebook_server_;  // Its end ends the lease: nobody would attach.
  bool forks_ = false;         // Ranks come out of the template.
  const uint64_t descriptors_ = local::raise_descriptor_limit();  // Four for each rank here.
  local::HeldPort torch_port_, jax_port_;                         // Since ranks were revived.
  ChunkFile log_;
  Controller controller_;
  bool paused_ = false;
  uint32_t read_first_ = 0;           // Of the ranks; others had their turn before.
  uint64_t oom_kills_ = oom_kills();  // Known so far.
};

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_HOST_CONTROLLER_LOOP_H_
