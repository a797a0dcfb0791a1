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
constexpr size_t kParentsKept = 64;

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

// ---- cells ------------------------------------------------------------------------------------

void Front::on_execute(Message message) {
  queue_.push_back(std::move(message));
  start_next();
}

void Front::start_next() {
  while (!current_ && !queue_.empty()) {
    Message request = std::move(queue_.front());
    queue_.pop_front();
    begin_cell(std::move(request));
    advance_cell();
  }
}

void Front::begin_cell(Message request) {
  Cell& cell = current_.emplace();
  current_id_ = 0;
  cell.request = std::move(request);
  publish_status("busy", cell.request.header);
  const Json& content = cell.request.content;
  const std::string code = text_of(content, "code");
  cell.silent = flag_of(content, "silent", false);
  cell.stores = !cell.silent && flag_of(content, "store_history", true);
  if (cell.stores) ++execution_count_;
  cell.count = execution_count_;
  if (!cell.silent)
    publish("execute_input", cell.request.header,
            {{"code", code}, {"execution_count", cell.count}});
  if (cell.stores) history_.add(cell.count, code);
  cell.plan = plan_cell(code);
}

void Front::advance_cell() {
  while (current_) {
    Cell& cell = *current_;
    if (!cell.plan.problem.empty()) return fail_cell("UsageError", cell.plan.problem);
    if (cell.calls_begun < cell.plan.calls.size()) {
      if (!do_magic(cell.plan.calls[cell.calls_begun++])) return;
      continue;
    }
    const bool magics_alone = cell.plan.code.empty() && !cell.plan.calls.empty();
    if (magics_alone || std::exchange(cell.code_begun, true)) return finish_cell(SK_CELL_OK);
    return run_on_ranks(cell.plan.code, SK_REQUEST_EXECUTE);
  }
}

void Front::run_on_ranks(const std::string& code, int32_t kind) {
  Cell& cell = *current_;
  cell.shown_before = cell.shown.size();
  if (session_ == nullptr) return fail_cell("SessionError", why_no_session_);
  sk_exec_options options = {};
  options.struct_size = sizeof options;
  options.silent = cell.silent ? 1 : 0;
  options.no_history = cell.stores ? 0 : 1;
  options.go_on_after_error = 1;  // The queue is ours: it is aborted in finish_cell().
  options.execution_count = cell.count;
  options.kind = kind;
  // Tools read hidden cells' output as one process's plain stream.
  const std::string ranks = !cell.plan.ranks.empty() ? cell.plan.ranks
                            : cell.stores            ? "all"
                                                     : "one";
  const sk_status sent =
      sk_exec(session_, ranks.c_str(), code.data(), code.size(), &options, &current_id_);
  if (sent != SK_OK) {
    const bool caller = sent == SK_ERR_INVALID_ARGUMENT || sent == SK_ERR_OUT_OF_RANGE;
    std::string why = sk_last_error();
    constexpr std::string_view kSpec = "sk_exec: rank set: ";
    if (why.starts_with(kSpec))
      why = fmt::format("%%on {}: {}", cell.plan.ranks, why.substr(kSpec.size()));
    return fail_cell(caller ? "UsageError" : "SessionError", why);
  }
  parents_[current_id_] = cell.request.header;
  if (parents_.size() > kParentsKept) parents_.erase(parents_.begin());
}

void Front::step_done(const sk_event& event) {
  current_id_ = 0;
  if (current_->code_begun && current_->stores)
    times_ = CellTimes(current_->count, event.times, event.time_count);
  if (event.status != SK_CELL_OK) {
    finish_cell(event.status);
  } else {
    if (current_->then) std::exchange(current_->then, nullptr)();
    advance_cell();
  }
  start_next();
}

void Front::fail_cell(const std::string& ename, const std::string& evalue) {
  current_->error = error_content(ename, evalue, Json::array({ename + ": " + evalue}));
  publish("error", current_->request.header, current_->error);
  finish_cell(SK_CELL_ERROR);
}

void Front::finish_cell(int32_t status) {
  const Cell cell = std::move(*current_);  // There until the end, so that no other begins.
  Json content = {{"status", "ok"}};
  if (status != SK_CELL_OK) {
    content = cell.error.is_object()
                  ? cell.error
                  : error_content("CellAborted", "interrupted before it started", Json::array());
    content["status"] = "error";
  }
  const bool stops =
      status != SK_CELL_OK && !cell.silent && flag_of(cell.request.content, "stop_on_error", true);
  // What was sent before the failure can be known belongs to this run of cells: it is read before
  // the reply, and dropped. What is sent after it is not.
  if (stops) serve_channel(channels_.shell());
  reply_to_cell(cell, std::move(content));
  if (stops) abort_queue();
  current_.reset();
  current_id_ = 0;
}

void Front::abort_queue() {
  for (const Message& message : std::exchange(queue_, {})) {
    publish_status("busy", message.header);
    reply(channels_.shell(), message, "execute_reply",
          {{"status", "aborted"}, {"execution_count", execution_count_}});
    publish_status("idle", message.header);
  }
}

void Front::reply_to_cell(const Cell& cell, Json content) {
  content["execution_count"] = cell.count;
  content["user_expressions"] = Json::object();
  content["payload"] = cell.payload;
  const Json expressions = cell.request.content.value("user_expressions", Json::object());
  if (expressions.is_object()) {
    for (const auto& [name, expression] : expressions.items())
      content["user_expressions"][name] = {
          {"status", "error"},
          {"ename", "NotSupported"},
          {"evalue", "user expressions are not evaluated by this kernel"},
          {"traceback", Json::array()}};
  }
  Json metadata = Json::object();
  if (cell.code_begun && cell.stores && times_.cell() == cell.count)
    metadata["superkernel"] = times_.as_json();
  send(channels_.shell(), wire_.build("execute_reply", cell.request.identities, cell.request.header,
                                      content, metadata));
  publish_status("idle", cell.request.header);
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
