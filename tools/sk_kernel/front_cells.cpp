// Cells of the notebook: their queue, their steps, their ends.
#include <fmt/format.h>

#include <utility>

#include "tools/sk_kernel/content.h"
#include "tools/sk_kernel/front.h"

namespace sk::kernel {
namespace {

constexpr size_t kParentsKept = 64;
constexpr size_t kTagMax =
    1 << 20;  // Larger ones are refused; such a cell ends with its front end.

}  // namespace

void Front::on_execute(Message message) {
  if (current_ && session_ != nullptr && flag_of(message.content, "store_history", true) &&
      !flag_of(message.content, "silent", false)) {
    const CellPlan plan = plan_cell(text_of(message.content, "code"));
    if (looks_only(plan)) return ask_aside(message, plan);
  }
  queue_.push_back({std::move(message), ""});
  start_next();
  if (!queue_.empty()) keep_waiting(&queue_.back());
}

void Front::start_next() {
  while (!current_ && !queue_.empty() && !catches_up()) {
    Waiting waiting = std::move(queue_.front());
    queue_.pop_front();
    if (taken_over_ > 0) --taken_over_;
    begin_cell(std::move(waiting));
    advance_cell();
  }
}

void Front::begin_cell(Waiting waiting) {
  Cell& cell = current_.emplace();
  cell_began_ = std::chrono::steady_clock::now();
  ++cells_begun_;
  current_id_ = 0;
  cell.request = std::move(waiting.request);
  cell.note = std::move(waiting.note);
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
  if (cell.stores) {
    history_.add(cell.count, code);
    keep_line(cell.count, code, "");
  }
  tell_notices(cell);
  cell.plan = plan_cell(code);
}

void Front::advance_cell() {
  while (current_) {
    Cell& cell = *current_;
    if (!cell.plan.problem.empty()) return fail_cell("UsageError", cell.plan.problem);
    if (!cell.plan.unsure.empty()) return ask_language();
    if (cell.calls_begun < cell.plan.calls.size()) {
      if (!do_magic(cell.plan.calls[cell.calls_begun++])) return;
      continue;
    }
    const bool magics_alone = cell.plan.code.empty() && !cell.plan.calls.empty();
    if (magics_alone || std::exchange(cell.code_begun, true)) return finish_cell(SK_CELL_OK);
    return run_on_ranks(cell.plan.code, SK_REQUEST_EXECUTE);
  }
}

// Before anything of the cell is done: the ranks it is for know which magics their language has.
void Front::ask_language() {
  if (session_ == nullptr) return fail_cell("UsageError", current_->plan.slip);
  current_->asks_language = true;
  const std::string action = "magic " + std::exchange(current_->plan.unsure, "");
  act_on_ranks(action.c_str(), [this] { current_->asks_language = false; });
}

// The ranks' own no, not an interrupt or that they cannot be asked.
bool Front::is_denial(const sk_event& event) const {
  const std::string_view name = event.ename;
  return current_ && event.cell == current_id_ && current_->asks_language &&
         name != "KeyboardInterrupt" && name != "RankDied" && name != "RankUnavailable";
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
  options.allow_input = flag_of(cell.request.content, "allow_stdin", false) ? 1 : 0;
  const auto wanted = cell.request.content.find("user_expressions");
  std::string expressions;
  if (kind == SK_REQUEST_EXECUTE && wanted != cell.request.content.end() && wanted->is_object() &&
      !wanted->empty())
    expressions = dump(*wanted);
  options.expressions = expressions.c_str();
  const std::string tag = tag_of(cell);
  options.tag = tag.size() < kTagMax ? tag.c_str() : nullptr;
  // Tools read hidden cells' output as one process's plain stream.
  const std::string ranks = !cell.plan.ranks.empty() ? cell.plan.ranks
                            : cell.stores            ? "all"
                                                     : "one";
  const sk_status sent =
      sk_exec(session_, ranks.c_str(), code.data(), code.size(), &options, &current_id_);
  if (sent != SK_OK) {
    const bool caller = sent == SK_ERR_INVALID_ARGUMENT || sent == SK_ERR_OUT_OF_RANGE;
    std::string why = sk_last_error();
    constexpr std::string_view kSpec = "cell: rank set: ";
    if (why.starts_with(kSpec))
      why = fmt::format("{}: {}", cell.plan.chosen_by, why.substr(kSpec.size()));
    return fail_cell(caller ? "UsageError" : "SessionError", why);
  }
  remember_parent(current_id_, cell.request.header);
  forget(&cell.note);  // From here on the session tells of it.
}

void Front::remember_parent(uint64_t cell, const Json& header) {
  parents_[cell] = header;
  if (parents_.size() > kParentsKept) parents_.erase(parents_.begin());
}

void Front::step_done(const sk_event& event) {
  current_id_ = 0;
  if (current_->code_begun && current_->stores)
    times_ = CellTimes(current_->count, event.times, event.time_count);
  const Json answer = Json::parse(event.text, event.text + event.text_bytes, nullptr,
                                  /*allow_exceptions=*/false);
  if (answer.is_object()) current_->answer.update(answer);
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
  Cell cell = std::move(*current_);  // There until the end, so that no other begins.
  forget(&cell.note);
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
  point_to_log(cell);
  reply_to_cell(cell, std::move(content));
  if (stops) abort_queue();
  current_.reset();
  current_id_ = 0;
}

void Front::abort_queue() {
  taken_over_ = 0;
  for (Waiting& waiting : std::exchange(queue_, {})) {
    const Message& message = waiting.request;
    forget(&waiting.note);
    publish_status("busy", message.header);
    send_reply(wire_.build("execute_reply", message.identities, message.header,
                           {{"status", "aborted"}, {"execution_count", execution_count_}}));
    publish_status("idle", message.header);
  }
}

void Front::reply_to_cell(const Cell& cell, Json content) {
  content["execution_count"] = cell.count;
  content["user_expressions"] = cell.answer.value("user_expressions", Json::object());
  content["payload"] = cell.payload;
  for (const Json& each : cell.answer.value("payload", Json::array()))
    content["payload"].push_back(each);
  Json metadata = Json::object();
  if (cell.code_begun && cell.stores && times_.cell() == cell.count)
    metadata["superkernel"] = times_.as_json();
  send_reply(wire_.build("execute_reply", cell.request.identities, cell.request.header, content,
                         metadata));
  publish_status("idle", cell.request.header);
}

}  // namespace sk::kernel
