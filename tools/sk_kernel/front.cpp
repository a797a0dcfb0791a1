#include "tools/sk_kernel/front.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "tools/sk_kernel/content.h"

namespace sk::kernel {
namespace {

constexpr auto kTick = std::chrono::milliseconds(1000);  // How often the parent is looked at.

}  // namespace

Front::Front(Channels& channels, OpenSession open, Wire wire, Language language, int32_t rank_count,
             int signal_fd)
    : channels_(channels),
      open_(std::move(open)),
      wire_(std::move(wire)),
      language_(std::move(language)),
      rank_count_(rank_count),
      signal_fd_(signal_fd) {}

int Front::run() {
  // Without ranks it stays and says so in each cell: if it ended, a notebook server would start it
  // again and again, and nobody would see the reason.
  if (!open_session()) std::fprintf(stderr, "sk kernel: %s\n", why_no_session_.c_str());
  publish_status("starting", Json::object());
  bool alive = true;
  while (!leaving_ && alive) {
    zmq::pollitem_t items[] = {{channels_.control().handle(), 0, ZMQ_POLLIN, 0},
                               {channels_.shell().handle(), 0, ZMQ_POLLIN, 0},
                               {channels_.iopub().handle(), 0, ZMQ_POLLIN, 0},
                               {nullptr, session_fd_, ZMQ_POLLIN, 0},
                               {nullptr, signal_fd_, ZMQ_POLLIN, 0}};
    try {
      zmq::poll(items, std::size(items), kTick);
    } catch (const zmq::error_t& thrown) {
      if (thrown.num() != EINTR) return 1;
    }
    if (items[4].revents != 0) handle_signal();
    handle_subscription();
    serve_channel(channels_.control());
    if (!leaving_) serve_channel(channels_.shell());
    alive = drain_events();
    if (parent_is_gone()) leaving_ = true;
  }
  return alive ? 0 : 1;
}

// ---- what comes in ----------------------------------------------------------------------------

void Front::serve_channel(zmq::socket_t& socket) {
  while (auto parts = receive(socket)) {
    auto message = wire_.parse(std::move(*parts));
    if (message.ok())
      handle(socket, std::move(*message));
    else
      std::fprintf(stderr, "sk kernel: dropped: %s\n", message.status().message().c_str());
    if (leaving_) return;
  }
}

void Front::handle(zmq::socket_t& socket, Message message) {
  const std::string type = message.type();
  if (!message.flaw.empty()) return refuse(socket, message);
  if (type == "execute_request") return on_execute(std::move(message));
  publish_status("busy", message.header);
  if (type == "complete_request") return on_question(std::move(message), SK_REQUEST_COMPLETE);
  if (type == "inspect_request") return on_question(std::move(message), SK_REQUEST_INSPECT);
  if (type == "is_complete_request") return on_question(std::move(message), SK_REQUEST_IS_COMPLETE);
  if (type == "kernel_info_request") reply(socket, message, "kernel_info_reply", kernel_info());
  if (type == "history_request")
    reply(socket, message, "history_reply", history_.answer(message.content));
  if (type == "comm_info_request")
    reply(socket, message, "comm_info_reply", {{"status", "ok"}, {"comms", Json::object()}});
  if (type == "comm_open") on_comm_open(message);
  if (type == "interrupt_request") on_interrupt(socket, message);
  if (type == "shutdown_request") on_shutdown(socket, message);
  publish_status("idle", message.header);
}

// A request that cannot be read is answered all the same: its sender waits.
void Front::refuse(zmq::socket_t& socket, const Message& message) {
  std::fprintf(stderr, "sk kernel: %s: %s\n", message.type().c_str(), message.flaw.c_str());
  if (!message.type().ends_with("_request")) return;
  publish_status("busy", message.header);
  Json content =
      error_content("MessageError", message.flaw, Json::array({"MessageError: " + message.flaw}));
  if (message.type() == "execute_request") {
    publish("error", message.header, content);
    content["execution_count"] = execution_count_;
  }
  content["status"] = "error";
  std::string type = message.type();
  reply(socket, message, type.replace(type.rfind("request"), std::string::npos, "reply"), content);
  publish_status("idle", message.header);
}

void Front::handle_subscription() {
  while (auto parts = receive(channels_.iopub())) {
    if ((*parts)[0].empty() || (*parts)[0][0] != '\x01') continue;
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

Json Front::kernel_info() const {
  const bool python = language_.name == "python";
  Json language = {{"name", language_.name},
                   {"version", language_.version},
                   {"mimetype", "text/x-" + language_.name},
                   {"file_extension", python                      ? ".py"
                                      : language_.name == "julia" ? ".jl"
                                                                  : ".txt"},
                   {"pygments_lexer", python ? "ipython3" : language_.name},
                   {"nbconvert_exporter", python ? "python" : "script"}};
  if (python)
    language["codemirror_mode"] = {{"name", "ipython"}, {"version", 3}};
  else
    language["codemirror_mode"] = language_.name;
  const std::string version =
      fmt::format("{}.{}.{}", SK_VERSION_MAJOR, SK_VERSION_MINOR, SK_VERSION_PATCH);
  return {{"status", "ok"},
          {"protocol_version", kProtocol},
          {"implementation", "superkernel"},
          {"implementation_version", version},
          {"language_info", std::move(language)},
          {"banner", fmt::format("SuperKernel {}: {} {} on {} ranks", version, language_.name,
                                 language_.version, rank_count_)},
          {"help_links", Json::array()},
          {"supported_features", Json::array()}};
}

void Front::on_comm_open(const Message& message) {  // No target is known: closed again.
  publish("comm_close", message.header,
          {{"comm_id", text_of(message.content, "comm_id")}, {"data", Json::object()}});
}

void Front::on_interrupt(zmq::socket_t& socket, const Message& message) {
  Json content = {{"status", "ok"}};
  if (session_ != nullptr && sk_session_interrupt(session_) != SK_OK)
    content = {{"status", "error"},
               {"ename", "SessionError"},
               {"evalue", sk_last_error()},
               {"traceback", Json::array()}};
  reply(socket, message, "interrupt_reply", content);
}

void Front::on_shutdown(zmq::socket_t& socket, const Message& message) {
  const Json content = {{"status", "ok"}, {"restart", flag_of(message.content, "restart", false)}};
  reply(socket, message, "shutdown_reply", content);
  publish("shutdown_reply", message.header, content);
  leaving_ = true;
}

void Front::on_question(Message message, int32_t kind) {
  const std::string code = text_of(message.content, "code");
  uint64_t cursor = code.size();
  const auto position = message.content.find("cursor_pos");
  if (position != message.content.end() && position->is_number_integer() &&
      position->get<int64_t>() >= 0)
    cursor = byte_of_code_point(code, position->get<uint64_t>());
  const auto level = message.content.find("detail_level");
  const bool detailed = level != message.content.end() && *level == 1;
  Question question{std::move(message), code, {}};
  if (kind == SK_REQUEST_COMPLETE) question.magics = complete_magic(code, cursor);
  if (question.magics.ours) {
    answer_completion(question, nullptr);
    return publish_status("idle", question.request.header);
  }
  const std::string asked = without_magics(code);
  uint64_t id = 0;
  if (session_ == nullptr || sk_session_ask(session_, kind, asked.data(), asked.size(), cursor,
                                            detailed ? 1 : 0, &id) != SK_OK) {
    sk_event nothing = {};
    nothing.status = SK_ERR_PEER_LOST;
    return answer(question, nothing);
  }
  questions_[id] = std::move(question);
}

// ---- what goes out ----------------------------------------------------------------------------

void Front::reply(zmq::socket_t& socket, const Message& to, const std::string& type,
                  const Json& content) {
  send(socket, wire_.build(type, to.identities, to.header, content));
}

void Front::publish(const std::string& type, const Json& parent, const Json& content,
                    const Json& metadata) {
  handle_subscription();  // A subscriber is welcomed before it sees anything else.
  send(channels_.iopub(), wire_.build(type, {"kernel." + type}, parent, content, metadata));
  if (current_ && !current_->plan.calls.empty() && parent == current_->request.header)
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
