// A front end that takes the place of one that was killed: the session's cells go on under it.
//
// What a cell needs to end well travels with it as its tag: whom to answer and how it was counted.
// What the session has not been given yet, cells that wait, and the history are left with it as
// notes.
#include <fmt/format.h>

#include <cstdio>

#include "sk/session.h"
#include "tools/sk_kernel/content.h"
#include "tools/sk_kernel/front.h"

namespace sk::kernel {
namespace {

// Subscribers come back one by one; the first is given a moment for the others.
constexpr auto kSettle = std::chrono::milliseconds(300);
// A client connects again within a second. One that does not is gone, and so is its interest.
constexpr auto kReplyPatience = std::chrono::seconds(20);

constexpr std::string_view kQueueNotes = "queue/";  // Numbered, so that they sort as they came.
constexpr std::string_view kHistoryNotes = "history/";
constexpr std::string_view kTemplateNote = "template";  // Not ours: of the ranks' template.
constexpr int64_t kHistoryLines = 1000;                 // The newest are kept,
constexpr size_t kHistoryBytesMax = 16 * 1024;          // if they are no longer.
constexpr size_t kClientsMax = 256;

std::string note_name(std::string_view kind, uint64_t number) {
  return fmt::format("{}{:020}", kind, number);
}

std::string hex(const std::string& bytes) {
  std::string out;
  for (const unsigned char c : bytes) out += fmt::format("{:02x}", c);
  return out;
}

std::string unhex(const std::string& text) {
  std::string out;
  for (size_t i = 0; i + 1 < text.size(); i += 2)
    out += static_cast<char>(std::strtol(text.substr(i, 2).c_str(), nullptr, 16));
  return out;
}

Json identities_of(const Message& request) {
  Json identities = Json::array();
  for (const std::string& identity : request.identities) identities.push_back(hex(identity));
  return identities;
}

std::string sentence_of_lost_cells(uint64_t count) {
  constexpr const char* kWhen = "that waited for their turn when the kernel was killed";
  if (count == 1)
    return fmt::format(
        "Of the cells {} one was too long to be kept. It has not been run: send it again.\n",
        kWhen);
  return fmt::format(
      "Of the cells {} {} were too long to be kept. They have not been run: send them again.\n",
      kWhen, count);
}

// Of a tag or a note: whom to answer.
bool read_sender(const Json& from, Message* request) {
  if (!from.is_object() || !from.contains("header") || !from.contains("identities") ||
      !from["header"].is_object() || !from["identities"].is_array())
    return false;
  request->header = from["header"];
  for (const Json& identity : from["identities"])
    if (identity.is_string()) request->identities.push_back(unhex(identity));
  return true;
}

}  // namespace

std::string Front::tag_of(const Cell& cell) const {
  Json shown = Json::array();
  for (const Cell::Output& output : cell.shown)
    shown.push_back({output.type, output.content, output.metadata});
  Json tag = {{"header", cell.request.header},
              {"identities", identities_of(cell.request)},
              {"stop_on_error", flag_of(cell.request.content, "stop_on_error", true)},
              {"count", cell.count},
              {"stores", cell.stores},
              {"silent", cell.silent},
              {"action", !cell.code_begun},
              {"shown", shown}};
  return dump(tag);
}

// A cell that the lost front end had begun.
void Front::adopt_cell(const sk_event& event) {
  const Json tag = Json::parse(event.tag, nullptr, /*allow_exceptions=*/false);
  Message request;
  if (!read_sender(tag, &request)) return;
  Cell& cell = current_.emplace();
  cell.request = std::move(request);
  cell.request.content = {{"stop_on_error", tag.value("stop_on_error", true)}};
  cell.count = tag.value("count", int64_t{0});
  cell.stores = tag.value("stores", true);
  cell.silent = tag.value("silent", false);
  // A step of magics ends the cell: what was to come after it is not known any more.
  cell.code_begun = cell.adopted = true;
  cell.collects_facts = tag.value("action", false);
  for (const Json& output : tag.value("shown", Json::array()))
    if (output.is_array() && output.size() == 3)
      cell.shown.push_back({output[0], output[1], output[2]});
  cell.shown_before = cell.shown.size();
  current_id_ = event.cell;
  remember_parent(current_id_, cell.request.header);
  execution_count_ = std::max(execution_count_, cell.count);
  publish_status("busy", cell.request.header);
}

// The session's state is told twice: before what it missed, with the last tag, and after it.
void Front::on_attached(const sk_event& event) {
  if (std::exchange(told_state_, true)) {
    caught_up_ = true;
    for (Waiting& waiting : queue_) keep_waiting(&waiting);
    if (not_kept_ > 0)
      publish("stream", parent_of(0),
              {{"name", "stderr"}, {"text", sentence_of_lost_cells(not_kept_)}});
  }
  const Json tag = Json::parse(event.tag, nullptr, /*allow_exceptions=*/false);
  if (tag.is_object())
    execution_count_ = std::max(execution_count_, tag.value("count", int64_t{0}));
}

// ---- what nobody may have read ------------------------------------------------------------------

// A page that is loaded anew is another client, and shows nothing of the cells that the one before
// it has sent.
void Front::meet(const Message& message) {
  const std::string client = text_of(message.header, "session");
  if (client.empty() || met_.contains(client)) return;
  if (met_.size() >= kClientsMax) met_.clear();
  const bool runs = current_ && current_->stores;
  const bool anothers = runs && text_of(current_->request.header, "session") != client;
  met_[client] = anothers ? current_->count : 0;
}

// Under the cell itself, for those who follow it still; in the next one, for all others.
void Front::point_to_log(const Cell& cell) {
  if (!cell.adopted || !cell.stores) return;
  publish("stream", cell.request.header,
          {{"name", "stderr"},
           {"text", fmt::format("The kernel's front end was lost while this cell ran: `%sk log {}` "
                                "shows all that it put out.\n",
                                cell.count)}});
  notices_ += fmt::format(
      "The kernel's front end was lost while cell {0} ran: `%sk log {0}` shows all that it put "
      "out.\n",
      cell.count);
}

void Front::tell_notices(Cell& cell) {
  if (!cell.stores) return;
  std::string text = std::exchange(notices_, "");
  const auto client = met_.find(text_of(cell.request.header, "session"));
  const int64_t ran = client == met_.end() ? 0 : std::exchange(client->second, 0);
  if (ran > 0)
    text += fmt::format(
        "Cell {0} ran when this notebook was opened: `%sk log {0}` shows all that it put out.\n",
        ran);
  if (text.empty()) return;
  const Json content = {{"name", "stderr"}, {"text", text}};
  const size_t before = cell.shown.size();
  publish("stream", cell.request.header, content);
  if (cell.shown.size() == before) cell.shown.push_back({"stream", content, Json::object()});
}

// ---- what is left for the next one --------------------------------------------------------------

void Front::keep(const std::string& name, const Json& note) {
  if (session_ == nullptr) return;
  const std::string text = dump(note);
  // Where this fails the session is over, and its next event says why.
  (void)!sk_session_keep(session_, name.c_str(), text.data(), text.size());
}

void Front::forget(std::string* note) {
  if (session_ != nullptr && !note->empty())
    (void)!sk_session_keep(session_, note->c_str(), nullptr, 0);
  note->clear();
}

void Front::keep_waiting(Waiting* waiting) {
  if (!waiting->note.empty() || catches_up()) return;  // Not over a note that is still to be told.
  waiting->note = note_name(kQueueNotes, ++waited_);
  const Message& request = waiting->request;
  keep(waiting->note, {{"header", request.header},
                       {"identities", identities_of(request)},
                       {"content", request.content}});
}

void Front::keep_line(int64_t line, const std::string& code, const std::string& output) {
  if (code.size() + output.size() > kHistoryBytesMax) return;
  const auto number = static_cast<uint64_t>(line);
  keep(note_name(kHistoryNotes, number), {{"line", line}, {"code", code}, {"output", output}});
  if (line <= kHistoryLines) return;
  std::string oldest = note_name(kHistoryNotes, number - kHistoryLines);
  forget(&oldest);
}

void Front::on_note(const sk_event& event) {
  const std::string name = event.tag;
  const Json note = Json::parse(event.text, event.text + event.text_bytes, nullptr,
                                /*allow_exceptions=*/false);
  if (name == kTemplateNote) return on_template_note(note);
  if (name.starts_with(kQueueNotes)) return take_waiting(name, note);
  if (!name.starts_with(kHistoryNotes) || !note.is_object()) return;
  const int64_t line = note.value("line", int64_t{0});
  execution_count_ = std::max(execution_count_, line);
  history_.add(line, text_of(note, "code"));
  if (const std::string output = text_of(note, "output"); !output.empty())
    history_.set_output(line, output);
}

// It runs when the cells before it have ended, ahead of those that came to this front end.
void Front::take_waiting(const std::string& name, const Json& note) {
  Waiting waiting{{}, name};
  waited_ = std::max<uint64_t>(waited_, std::strtoull(&name[kQueueNotes.size()], nullptr, 10));
  if (!read_sender(note, &waiting.request) || !note.contains("content")) {
    ++not_kept_;
    return forget(&waiting.note);
  }
  waiting.request.content = note["content"];
  queue_.insert(queue_.begin() + static_cast<std::ptrdiff_t>(taken_over_++), std::move(waiting));
}

// What is published before somebody listens is lost for good, so the session is not heard before.
bool Front::may_hear_session() const {
  if (!attached_) return true;
  if (!subscribed_at_) return false;
  return std::chrono::steady_clock::now() >= *subscribed_at_ + kSettle;
}

void Front::send_reply(std::vector<std::string> parts) {
  if (send(channels_.shell(), parts) || !attached_) return;
  unsent_.push_back({std::move(parts), std::chrono::steady_clock::now() + kReplyPatience});
}

void Front::send_unsent() {
  const auto now = std::chrono::steady_clock::now();
  std::erase_if(unsent_, [&](const Unsent& reply) {
    return send(channels_.shell(), reply.parts) || now >= reply.until;
  });
}

}  // namespace sk::kernel
