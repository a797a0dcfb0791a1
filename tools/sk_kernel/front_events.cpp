// Events of the session, as messages to the notebook.
#include <cstdio>

#include "sk/session.h"
#include "tools/sk_kernel/content.h"
#include "tools/sk_kernel/front.h"

namespace sk::kernel {
namespace {

constexpr int kEventsAtOnce = 256;  // Then control is looked at again.

// A language that hands over what is no JSON is told on the kernel's stderr; the data is shown.
Json metadata_of(const sk_event& event) {
  if (*event.metadata == '\0') return Json::object();
  Json metadata = Json::parse(event.metadata, nullptr, /*allow_exceptions=*/false);
  if (metadata.is_object()) return metadata;
  std::fprintf(stderr, "sk kernel: dropped the metadata of a display: it is no JSON object\n");
  return Json::object();
}

}  // namespace

bool Front::drain_events() {
  for (int i = 0; i < kEventsAtOnce && session_ != nullptr && may_hear_session(); ++i) {
    sk_event event = {};
    event.struct_size = sizeof event;
    if (sk_session_poll(session_, 0, &event) != SK_OK) return false;
    if (event.kind == SK_EVENT_NONE) return true;
    on_event(event);
    if (event.kind == SK_EVENT_STATUS && event.status == SK_SESSION_OVER) {
      std::fprintf(stderr, "sk kernel: %s\n", event.text);
      if (current_) {
        current_->error = error_content("SessionOver", event.text, Json::array({event.text}));
        finish_cell(SK_CELL_ERROR);
      }
      return false;
    }
  }
  return true;
}

const Json& Front::parent_of(uint64_t cell) const {
  static const Json none = Json::object();
  const auto found = parents_.find(cell);
  if (found != parents_.end()) return found->second;
  return parents_.empty() ? none : parents_.rbegin()->second;
}

void Front::on_event(const sk_event& event) {
  const Json& parent = parent_of(event.cell);
  const Json metadata =
      rank_count_ > 1 ? Json{{"superkernel", {{"ranks", event.ranks}}}} : Json::object();
  if (event.kind == SK_EVENT_STREAM) {
    publish("stream", parent,
            {{"name", event.stream == SK_STREAM_STDERR ? "stderr" : "stdout"},
             {"text", std::string(event.text, event.text_bytes)}},
            metadata);
  } else if (event.kind == SK_EVENT_DISPLAY) {
    on_display(event, parent);
  } else if (event.kind == SK_EVENT_ERROR) {
    Json traceback = Json::array();
    for (uint64_t i = 0; i < event.traceback_count; ++i) traceback.push_back(event.traceback[i]);
    Json content = error_content(event.ename, event.evalue, std::move(traceback));
    if (is_denial(event)) {
      const std::string& slip = current_->plan.slip;
      content = error_content("UsageError", slip, Json::array({"UsageError: " + slip}));
    }
    publish("error", parent, content, metadata);
    if (current_ && event.cell == current_id_) current_->error = content;
  } else if (event.kind == SK_EVENT_CELL_DONE) {
    end_comm_cell(event.cell);
    const uint64_t cell = event.cell;
    if (current_ && cell == current_id_) step_done(event);
    // From here on the notebook has it. Where this fails, the next event says why.
    if (session_ != nullptr && sk_session_ack(session_, cell) != SK_OK) return;
  } else if (event.kind == SK_EVENT_CELL_START) {
    if (!current_ && *event.tag != '\0') adopt_cell(event);
    if (current_ && event.cell == current_id_) hide_progress();
  } else if (event.kind == SK_EVENT_STATUS) {
    if (catches_up()) on_attached(event);
    // A template that ended meanwhile imports nothing any more.
    if (event.status != SK_SESSION_STARTING && preload_note_ && !preload_note_->importing.empty())
      preload_note_.reset();
  } else if (event.kind == SK_EVENT_NOTE) {
    on_note(event);
  } else if (event.kind == SK_EVENT_INPUT) {
    on_prompt(event);
  } else if (event.kind == SK_EVENT_INPUT_END) {
    if (event.request == prompt_) prompt_ = 0;
  } else if (event.kind == SK_EVENT_COMM) {
    on_rank_comm(event);
  } else if (event.kind == SK_EVENT_REPLY) {
    on_answer(event);
  } else if (event.kind == SK_EVENT_RANK) {
    on_rank(event);
  }
}

void Front::on_display(const sk_event& event, const Json& parent) {
  if (current_ && event.cell == current_id_ && current_->collects_facts)
    return collect(current_->facts, event);
  if (event.display == SK_DISPLAY_CLEAR || event.display == SK_DISPLAY_CLEAR_WAIT)
    return publish("clear_output", parent, {{"wait", event.display == SK_DISPLAY_CLEAR_WAIT}});
  if (event.display == SK_DISPLAY_PAGE) {
    if (current_ && event.cell == current_id_)
      current_->payload = Json::array(
          {{{"source", "page"}, {"data", bundle(event.mimes, event.mime_count)}, {"start", 0}}});
    return;
  }
  Json content = {{"data", bundle(event.mimes, event.mime_count)},
                  {"metadata", metadata_of(event)}};
  if (rank_count_ > 1) content["metadata"]["superkernel"] = {{"ranks", event.ranks}};
  content["transient"] = Json::object();
  if (*event.display_id != '\0') content["transient"]["display_id"] = event.display_id;
  if (event.display == SK_DISPLAY_UPDATE) return publish("update_display_data", parent, content);
  if (event.display == SK_DISPLAY_DATA) return publish("display_data", parent, content);
  const int64_t count = current_ && event.cell == current_id_ ? current_->count : execution_count_;
  content["execution_count"] = count;
  const Json& data = content["data"];
  if (data.contains("text/plain") && data["text/plain"].is_string()) {
    const std::string text = data["text/plain"].get<std::string>();
    if (const std::string* code = history_.set_output(count, text)) keep_line(count, *code, text);
  }
  publish("execute_result", parent, content);
}

// A rank that dies in a cell is in that cell's error; one that dies between cells is told here.
void Front::on_rank(const sk_event& event) {
  if (event.status == SK_RANK_STARTING && event.text_bytes > 0)
    notices_ += std::string(event.text, event.text_bytes) + ".\n";
  if (event.status != SK_RANK_DEAD || current_ || parents_.empty()) return;
  publish(
      "stream", parent_of(0),
      {{"name", "stderr"}, {"text", fmt::format("rank {} died: {}\n", event.ranks, event.text)}});
}

// Our names and those of the language, over one range. `event` is null where only ours can stand.
void Front::answer_completion(const Question& question, const sk_event* event) {
  const std::string_view code = question.code;
  const bool ours = !question.magics.names.empty() || event == nullptr;
  uint64_t start = ours ? question.magics.start : code.size();
  uint64_t end = ours ? question.magics.end : code.size();
  Json matches = Json::array();
  for (const std::string& name : question.magics.names) matches.push_back(name);
  // The language's own, as far as they continue the same word.
  if (event != nullptr && event->status == SK_OK && (!ours || event->start >= start)) {
    if (!ours) {
      end = std::min<uint64_t>(event->end, code.size());
      start = std::min(event->start, end);
    }
    const uint64_t theirs = std::min<uint64_t>(event->start, code.size());
    for (uint64_t i = 0; i < event->string_count; ++i) {
      const std::string match = std::string(code.substr(start, theirs - start)) + event->strings[i];
      if (std::find(matches.begin(), matches.end(), match) == matches.end())
        matches.push_back(match);
    }
  }
  reply(channels_.shell(), question.request, "complete_reply",
        {{"status", "ok"},
         {"matches", std::move(matches)},
         {"cursor_start", code_points_in(code.substr(0, start))},
         {"cursor_end", code_points_in(code.substr(0, end))},
         {"metadata", Json::object()}});
}

void Front::on_answer(const sk_event& event) {
  if (auto waiting = asked_.extract(event.request)) return waiting.mapped()(event);
  const auto found = questions_.find(event.request);
  if (found == questions_.end()) return;
  const Question question = std::move(found->second);
  questions_.erase(found);
  answer(question, event);
}

void Front::answer(const Question& question, const sk_event& event) {
  const std::string type = question.request.type();
  if (type == "complete_request") {
    answer_completion(question, &event);
    return publish_status("idle", question.request.header);
  }
  Json strings = Json::array();
  for (uint64_t i = 0; i < event.string_count; ++i) strings.push_back(event.strings[i]);
  Json content = {{"status", "ok"}};
  if (type == "inspect_request") {
    content["found"] = event.status == SK_OK && event.answer == 1;
    content["data"] = bundle(event.mimes, event.mime_count);
    content["metadata"] = Json::object();
  } else {
    static constexpr const char* kAnswers[] = {"unknown", "complete", "incomplete", "invalid"};
    content["status"] = kAnswers[event.status == SK_OK ? event.answer & 3 : 0];
    if (event.status == SK_OK && event.answer == SK_COMPLETE_INCOMPLETE)
      content["indent"] = strings.empty() ? Json("") : strings[0];
  }
  std::string reply_type = type;
  reply_type.replace(reply_type.rfind("request"), std::string::npos, "reply");
  reply(channels_.shell(), question.request, reply_type, content);
  publish_status("idle", question.request.header);
}

}  // namespace sk::kernel
