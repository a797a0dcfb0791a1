// Verbs of %sk that ask the session and wait for its answer, also while a cell runs.
#include <fmt/format.h>

#include <utility>

#include "sk/session.h"
#include "tools/sk_kernel/content.h"
#include "tools/sk_kernel/front.h"
#include "tools/sk_kernel/magic_status.h"

namespace sk::kernel {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

Json as_text(const std::string& text) { return {{"text/plain", text}}; }

}  // namespace

// Whether it only looks at what the ranks do, so that it need not wait for them.
bool Front::looks_only(const CellPlan& plan) {
  const auto looks = [](const MagicCall& call) {
    return call.name == "sk stack" || (call.name == "sk status" && call.arguments.empty());
  };
  return plan.problem.empty() && plan.ranks.empty() && plan.code.empty() &&
         plan.calls.size() == 1 && looks(plan.calls[0]);
}

sk_status Front::send_verb(const MagicCall& call, uint64_t* request) {
  const std::string words = joined(call.arguments);
  const char* ranks = words.empty() ? nullptr : words.c_str();
  if (call.name == "sk status") return sk_session_status(session_, request);
  if (call.name == "sk revive") return sk_session_revive(session_, ranks, request);
  return sk_session_stack(session_, ranks, request);
}

// One that takes its turn. False: the step goes on, or the cell has ended.
bool Front::ask_session(const MagicCall& call) {
  if (session_ == nullptr) return fail_cell("SessionError", why_no_session_), false;
  uint64_t request = 0;
  if (send_verb(call, &request) != SK_OK)
    return fail_cell("UsageError", said_of(call.name, sk_last_error())), false;
  asked_[request] = [this, name = call.name](const sk_event& event) {
    if (!current_) return;
    if (event.status != SK_OK) {
      fail_cell("SessionError", said_of(name, event.text));
    } else {
      show(answer_of(name, event));
      advance_cell();
    }
    start_next();
  };
  return false;
}

// One that is asked while another cell runs: it gets its answer past the queue.
void Front::ask_aside(const Message& message, const CellPlan& plan) {
  const std::string code = text_of(message.content, "code");
  const int64_t count = ++execution_count_;
  publish_status("busy", message.header);
  publish("execute_input", message.header, {{"code", code}, {"execution_count", count}});
  history_.add(count, code);
  const auto end = [this, message, count, name = plan.calls[0].name](const sk_event& event) {
    Json content = {{"status", "ok"}, {"user_expressions", Json::object()}};
    if (event.status == SK_OK) {
      publish("display_data", message.header,
              {{"data", answer_of(name, event)},
               {"metadata", Json::object()},
               {"transient", Json::object()}});
    } else {
      const std::string why = said_of(name, event.text);
      content = error_content("SessionError", why, Json::array({"SessionError: " + why}));
      publish("error", message.header, content);
      content["status"] = "error";
    }
    content["execution_count"] = count;
    content["payload"] = Json::array();
    reply(channels_.shell(), message, "execute_reply", content);
    publish_status("idle", message.header);
    // The last state counts for a notebook's indicator, and a cell still runs.
    if (current_) publish_status("busy", current_->request.header);
  };
  uint64_t request = 0;
  if (send_verb(plan.calls[0], &request) == SK_OK) {
    asked_[request] = end;
    return;
  }
  const std::string why = sk_last_error();
  sk_event refused = {};
  refused.status = SK_ERR_INVALID_ARGUMENT;
  refused.text = why.c_str();
  end(refused);
}

// The session is gone, so no answer comes.
void Front::give_up_asked() {
  sk_event nothing = {};
  nothing.status = SK_ERR_PEER_LOST;
  nothing.text = "the ranks are gone";
  for (const auto& [request, waiting] : std::exchange(asked_, {})) waiting(nothing);
}

Json Front::answer_of(const std::string& name, const sk_event& event) const {
  if (name == "sk status") {
    Table table = status_table(event.text);
    if (preload_note_ && !preload_note_->importing.empty()) table.foot = progress_line();
    return {{"text/plain", table.plain()}, {"text/html", table.html()}};
  }
  if (name == "sk revive" && event.string_count > 0) {
    const std::string_view ranks = event.strings[0];
    const bool one = ranks.find_first_of(",-") == std::string_view::npos;
    return as_text(fmt::format("Starting {} {} again; cells wait for {}.", one ? "rank" : "ranks",
                               ranks, one ? "it" : "them"));
  }
  return as_text(event.text);
}

}  // namespace sk::kernel
