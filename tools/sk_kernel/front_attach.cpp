// A front end that takes the place of one that was killed: the session's cells go on under it.
//
// What a cell needs to end well travels with it as its tag: whom to answer and how it was counted.
#include <cstdio>

#include "tools/sk_kernel/content.h"
#include "tools/sk_kernel/front.h"

namespace sk::kernel {
namespace {

// Subscribers come back one by one; the first is given a moment for the others.
constexpr auto kSettle = std::chrono::milliseconds(300);
// A client connects again within a second. One that does not is gone, and so is its interest.
constexpr auto kReplyPatience = std::chrono::seconds(20);

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

}  // namespace

std::string Front::tag_of(const Cell& cell) const {
  Json identities = Json::array();
  for (const std::string& identity : cell.request.identities) identities.push_back(hex(identity));
  Json shown = Json::array();
  for (const Cell::Output& output : cell.shown)
    shown.push_back({output.type, output.content, output.metadata});
  Json tag = {{"header", cell.request.header},
              {"identities", identities},
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
  if (!tag.is_object() || !tag.contains("header") || !tag["identities"].is_array()) return;
  Cell& cell = current_.emplace();
  cell.request.header = tag["header"];
  for (const Json& identity : tag["identities"])
    if (identity.is_string()) cell.request.identities.push_back(unhex(identity));
  cell.request.content = {{"stop_on_error", tag.value("stop_on_error", true)}};
  cell.count = tag.value("count", int64_t{0});
  cell.stores = tag.value("stores", true);
  cell.silent = tag.value("silent", false);
  // A step of magics ends the cell: what was to come after it is not known any more.
  cell.code_begun = true;
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
  if (std::exchange(told_state_, true)) caught_up_ = true;
  const Json tag = Json::parse(event.tag, nullptr, /*allow_exceptions=*/false);
  if (tag.is_object())
    execution_count_ = std::max(execution_count_, tag.value("count", int64_t{0}));
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
