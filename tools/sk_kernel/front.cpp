#include "tools/sk_kernel/front.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <bit>
#include <cinttypes>
#include <cstdlib>
#include <utility>

#include "tools/sk_kernel/content.h"

namespace sk::kernel {
namespace {

constexpr auto kHeldTick = std::chrono::milliseconds(20);
constexpr int kStrangeAtOnce = 100;  // Messages of nobody we know, between two looks at the ranks.
constexpr auto kTick = std::chrono::milliseconds(1000);  // How often the parent is looked at.

}  // namespace

Front::Front(Channels& channels, OpenSession open, Wire wire, Language language, int32_t rank_count,
             int signal_fd, PreloadChoice preload, std::string why_no_preload)
    : channels_(channels),
      open_(std::move(open)),
      wire_(std::move(wire)),
      language_(std::move(language)),
      rank_count_(rank_count),
      signal_fd_(signal_fd),
      preload_(std::move(preload)),
      why_no_preload_(std::move(why_no_preload)) {}

int Front::run() {
  // Without ranks it stays and says so in each cell: if it ended, a notebook server would start it
  // again and again, and nobody would see the reason.
  if (!open_session()) std::fprintf(stderr, "sk kernel: %s\n", why_no_session_.c_str());
  publish_status("starting", Json::object());
  bool alive = true;
  while (!leaving_ && alive) {
    const bool hears = may_hear_session();
    zmq::pollitem_t items[] = {{channels_.control().handle(), 0, ZMQ_POLLIN, 0},
                               {channels_.shell().handle(), 0, ZMQ_POLLIN, 0},
                               {channels_.iopub().handle(), 0, ZMQ_POLLIN, 0},
                               {channels_.input().handle(), 0, ZMQ_POLLIN, 0},
                               {nullptr, session_fd_, hears ? short{ZMQ_POLLIN} : short{0}, 0},
                               {nullptr, signal_fd_, ZMQ_POLLIN, 0}};
    try {
      zmq::poll(items, std::size(items),
                held_.empty() && unsent_.empty() && hears ? kTick : kHeldTick);
    } catch (const zmq::error_t& thrown) {
      if (thrown.num() != EINTR) return 1;
    }
    if (items[5].revents != 0) handle_signal();
    handle_subscription();
    serve_channel(channels_.control());
    if (!leaving_) serve_channel(channels_.shell());
    if (!leaving_) serve_channel(channels_.input());
    alive = drain_events();
    send_unsent();
    start_next();
    handle_held();
    if (parent_is_gone()) leaving_ = true;
  }
  return alive ? 0 : 1;
}

// ---- what comes in ----------------------------------------------------------------------------

void Front::serve_channel(zmq::socket_t& socket) {
  for (int strange = 0; strange < kStrangeAtOnce;) {
    auto parts = receive(socket);
    if (!parts) return;
    auto message = wire_.parse(std::move(*parts));
    if (message.ok()) {
      handle(socket, std::move(*message));
      if (leaving_) return;
      continue;
    }
    ++strange;
    if (std::has_single_bit(++dropped_))  // Of many, not every one.
      std::fprintf(stderr, "sk kernel: dropped: %s (%" PRIu64 " in all)\n",
                   message.status().message().c_str(), dropped_);
  }
}

void Front::handle_subscription() {
  for (int i = 0; i < kStrangeAtOnce; ++i) {
    const auto parts = receive(channels_.iopub());
    if (!parts) return;
    if (parts->empty() || (*parts)[0].empty() || (*parts)[0][0] != '\x01') continue;
    if (!subscribed_at_) subscribed_at_ = std::chrono::steady_clock::now();
    const std::string topic = (*parts)[0].substr(1);
    send(channels_.iopub(), wire_.build("iopub_welcome", {"kernel.iopub_welcome"}, Json::object(),
                                        {{"subscription", topic}}));
  }
}

void Front::handle_signal() {
  signalfd_siginfo info{};
  if (read(signal_fd_, &info, sizeof info) != sizeof info) return;
  if (info.ssi_signo == SIGTERM)
    leaving_ = true;
  else if (session_ != nullptr && sk_session_interrupt(session_) != SK_OK)
    leaving_ = true;
}

// A notebook server that was killed cannot tell us to go.
bool Front::parent_is_gone() const {
  const char* parent = std::getenv("JPY_PARENT_PID");
  const bool named = parent != nullptr && std::strtol(parent, nullptr, 10) > 1;
  return named && getppid() == 1;
}

// ---- what goes out ----------------------------------------------------------------------------

void Front::reply(zmq::socket_t& socket, const Message& to, const std::string& type,
                  const Json& content) {
  send(socket, wire_.build(type, to.identities, to.header, content));
}

void Front::publish(const std::string& type, const Json& parent, const Json& content,
                    const Json& metadata, const std::vector<std::string>& buffers) {
  handle_subscription();  // A subscriber is welcomed before it sees anything else.
  auto parts = wire_.build(type, {"kernel." + type}, parent, content, metadata);
  parts.insert(parts.end(), buffers.begin(), buffers.end());  // Not signed, as the protocol has it.
  send(channels_.iopub(), parts);
  const bool has_before = current_ && !(current_->plan.calls.empty() && current_->shown.empty());
  if (has_before && parent == current_->request.header)
    keep_what_magics_show(type, content, metadata);
}

void Front::keep_what_magics_show(const std::string& type, const Json& content,
                                  const Json& metadata) {
  Cell& cell = *current_;
  if (type == "clear_output") {
    cell.shown.resize(cell.shown_before);
    for (const Cell::Output& output : cell.shown)
      send(channels_.iopub(), wire_.build(output.type, {"kernel." + output.type},
                                          cell.request.header, output.content, output.metadata));
  } else if (!cell.code_begun && (type == "stream" || type == "display_data")) {
    cell.shown.push_back({type, content, metadata});
  }
}

void Front::publish_status(const char* state, const Json& parent) {
  publish("status", parent, {{"execution_state", state}});
}

}  // namespace sk::kernel
