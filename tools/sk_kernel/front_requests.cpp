// Requests beside cells: what the kernel is, questions of the one who types, the end.
#include <algorithm>
#include <cstdio>
#include <string_view>

#include "sk/session.h"
#include "tools/sk_kernel/content.h"
#include "tools/sk_kernel/front.h"
#include "tools/sk_kernel/magic_table.h"

namespace sk::kernel {
namespace {

bool is_known(std::string_view type) {
  static constexpr std::string_view kKnown[] = {
      "complete_request",       "inspect_request",         "is_complete_request",
      "kernel_info_request",    "history_request",         "comm_info_request",
      "interrupt_request",      "shutdown_request",        "debug_request",
      "connect_request",        "create_subshell_request", "list_subshell_request",
      "delete_subshell_request"};
  return std::find(std::begin(kKnown), std::end(kKnown), type) != std::end(kKnown);
}

// What a program sends in one go with a cell is in order with it; a person is slower than this.
constexpr auto kBurst = std::chrono::milliseconds(50);
constexpr auto kHoldMax = std::chrono::milliseconds(900);  // Notebooks drop what comes after 1 s.

std::string reply_type_of(std::string type) {
  return type.replace(type.rfind("request"), std::string::npos, "reply");
}

Json help_links(bool python) {
  if (!python) return Json::array();
  return {{{"text", "Python Reference"}, {"url", "https://docs.python.org/3/"}},
          {{"text", "IPython Reference"}, {"url", "https://ipython.readthedocs.io/"}},
          {{"text", "NumPy Reference"}, {"url", "https://numpy.org/doc/stable/reference/"}}};
}

}  // namespace

void Front::handle(zmq::socket_t& socket, Message message) {
  const std::string type = message.type();
  if (!message.flaw.empty()) return refuse(socket, message);
  meet(message);
  if (type == "execute_request") return on_execute(std::move(message));
  if (type == "input_reply") return on_input_reply(message);
  if (holds(socket, message)) {
    held_behind_ = cells_begun_;
    held_.push_back(std::move(message));
    return;
  }
  publish_status("busy", message.header);
  if (type == "complete_request") return on_question(std::move(message), SK_REQUEST_COMPLETE);
  if (type == "inspect_request") return on_question(std::move(message), SK_REQUEST_INSPECT);
  if (type == "is_complete_request") return on_question(std::move(message), SK_REQUEST_IS_COMPLETE);
  if (type == "usage_request") return on_usage(socket, message);
  if (type == "kernel_info_request") reply(socket, message, "kernel_info_reply", kernel_info());
  if (type == "history_request")
    reply(socket, message, "history_reply", history_.answer(message.content));
  if (type == "comm_info_request")
    reply(socket, message, "comm_info_reply", comms_.info(message.content));
  if (type.starts_with("comm_") && !type.ends_with("_request") && on_comm(message)) return;
  if (type == "interrupt_request") on_interrupt(socket, message);
  if (type == "shutdown_request") on_shutdown(socket, message);
  if (type == "debug_request") on_debug(socket, message);
  if (type == "connect_request") on_connect(socket, message);
  if (type.ends_with("_subshell_request")) on_subshell(socket, message);
  if (type.ends_with("_request") && !is_known(type)) on_unknown(socket, message);
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
  reply(socket, message, reply_type_of(message.type()), content);
  publish_status("idle", message.header);
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
          {"help_links", help_links(python)},
          {"supported_features", Json::array({"kernel subshells"})}};
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
  if (content["restart"] == false) preload_.forget();
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
  if (kind == SK_REQUEST_INSPECT)
    if (const std::string magic = magic_at(code, cursor); !magic.empty()) {
      const HelpText help = magic_help(magic == "%sk" ? "" : magic);
      reply(channels_.shell(), question.request, "inspect_reply",
            {{"status", "ok"},
             {"found", true},
             {"data", {{"text/plain", help.plain}, {"text/markdown", help.markdown}}},
             {"metadata", Json::object()}});
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

// There is no debugger, and kernel_info says so; front ends ask all the same, several times.
void Front::on_debug(zmq::socket_t& socket, const Message& message) {
  const auto seq = message.content.find("seq");
  reply(socket, message, "debug_reply",
        {{"type", "response"},
         {"request_seq", seq != message.content.end() ? *seq : Json(0)},
         {"success", false},
         {"command", text_of(message.content, "command")},
         {"message", "this kernel has no debugger"},
         {"body", Json::object()}});
}

// The session knows the ranks' processes.
void Front::on_usage(zmq::socket_t& socket, const Message& message) {
  const auto answer = [this, &socket, message](const sk_event& event) {
    const std::string_view text = event.text == nullptr ? "" : event.text;
    const Json status = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    reply(
        socket, message, "usage_reply",
        usage_.measure(event.status == SK_OK ? status : Json(), std::chrono::steady_clock::now()));
    publish_status("idle", message.header);
    if (current_) publish_status("busy", current_->request.header);
  };
  uint64_t request = 0;
  if (session_ != nullptr && sk_session_status(session_, &request) == SK_OK) {
    asked_[request] = answer;
    return;
  }
  sk_event nothing = {};
  nothing.status = SK_ERR_PEER_LOST;
  answer(nothing);
}

void Front::on_connect(zmq::socket_t& socket, const Message& message) {
  const Ports& ports = channels_.ports();
  reply(socket, message, "connect_reply",
        {{"status", "ok"},
         {"shell_port", ports.shell},
         {"iopub_port", ports.iopub},
         {"stdin_port", ports.input},
         {"control_port", ports.control},
         {"hb_port", ports.heartbeat}});
}

// A subshell is a name here: questions never wait for a cell, and cells and widgets take turns on
// the ranks' main threads, whichever subshell they come from.
void Front::on_subshell(zmq::socket_t& socket, const Message& message) {
  const std::string type = message.type(), id = text_of(message.content, "subshell_id");
  Json content = {{"status", "ok"}};
  if (type == "create_subshell_request") {
    auto fresh = random_id();
    if (fresh.ok()) content["subshell_id"] = *subshells_.insert(*fresh).first;
    if (!fresh.ok())
      content = error_content("SystemError", fresh.status().message(), Json::array());
  } else if (type == "list_subshell_request") {
    content["subshell_id"] = subshells_;
  } else if (subshells_.erase(id) == 0) {
    const std::string why = fmt::format("there is no subshell \"{}\"", id);
    content = error_content("UnknownSubshell", why, Json::array({"UnknownSubshell: " + why}));
  }
  if (content.contains("ename")) content["status"] = "error";
  reply(socket, message, reply_type_of(type), content);
}

bool Front::holds(zmq::socket_t& socket, const Message& message) const {
  if (&socket != &channels_.shell() || !message.type().ends_with("_request")) return false;
  if (!held_.empty() && held_behind_ == cells_begun_ && current_) return true;  // Keeps the order.
  return current_ && std::chrono::steady_clock::now() - cell_began_ < kBurst;
}

void Front::handle_held() {
  const bool over = !current_ || held_behind_ != cells_begun_ ||
                    std::chrono::steady_clock::now() - cell_began_ > kHoldMax;
  if (held_.empty() || !over) return;
  cell_began_ -= kHoldMax;  // Not held again.
  for (Message& message : std::exchange(held_, {})) handle(channels_.shell(), std::move(message));
}

void Front::on_unknown(zmq::socket_t& socket, const Message& message) {
  const std::string why = "this kernel does not know " + message.type();
  Json content = error_content("UnknownRequest", why, Json::array({"UnknownRequest: " + why}));
  content["status"] = "error";
  reply(socket, message, reply_type_of(message.type()), content);
}

}  // namespace sk::kernel
