// Input and comms: what ranks and notebook say to each other beside cells and outputs.
#include <cstdio>

#include "tools/sk_kernel/content.h"
#include "tools/sk_kernel/front.h"

namespace sk::kernel {
namespace {

constexpr const char* kEndOfInput = "\x04";  // What terminals send for the end.

std::vector<std::string> buffers_of(const sk_event& event) {
  std::vector<std::string> buffers;
  for (uint64_t i = 0; i < event.mime_count; ++i)
    buffers.emplace_back(static_cast<const char*>(event.mimes[i].data), event.mimes[i].bytes);
  return buffers;
}

}  // namespace

// ---- input ------------------------------------------------------------------------------------

void Front::on_prompt(const sk_event& event) {
  if (!current_ || event.cell != current_id_) return;
  const auto parts = wire_.build(
      "input_request", current_->request.identities, current_->request.header,
      {{"prompt", std::string(event.text, event.text_bytes)}, {"password", event.answer == 1}});
  send(channels_.input(), parts);
  prompt_ = event.request;
  prompt_message_ = wire_.last_id();
}

// A reply that names another request is of a prompt that is over.
void Front::on_input_reply(const Message& message) {
  const std::string parent = text_of(message.parent, "msg_id");
  if (prompt_ == 0 || (!parent.empty() && parent != prompt_message_)) return;
  const std::string text = text_of(message.content, "value");
  const bool ends = text == kEndOfInput;
  const uint64_t request = std::exchange(prompt_, 0);
  if (sk_session_answer(session_, request, ends ? nullptr : text.data(), ends ? 0 : text.size()) !=
      SK_OK)
    std::fprintf(stderr, "sk kernel: %s\n", sk_last_error());
}

// ---- comms ------------------------------------------------------------------------------------

// True when the message is on its way to ranks: its idle comes when they have handled it.
bool Front::on_comm(const Message& message) {
  const std::string type = message.type(), id = text_of(message.content, "comm_id");
  const std::string target = text_of(message.content, "target_name");
  const auto content = message.content.find("data");
  const std::string data = content != message.content.end() ? dump(*content) : "{}";
  const std::string metadata = dump(message.metadata);
  std::vector<sk_mime> buffers;
  for (const std::string& buffer : message.buffers)
    buffers.push_back({nullptr, buffer.data(), buffer.size()});
  sk_comm_message out = {};
  out.struct_size = sizeof out;
  out.kind = type == "comm_open"    ? SK_COMM_OPEN
             : type == "comm_close" ? SK_COMM_CLOSE
                                    : SK_COMM_MSG;
  out.comm = id.c_str();
  out.target = target.c_str();
  out.data = data.data();
  out.data_bytes = data.size();
  out.metadata = metadata.c_str();
  out.buffers = buffers.data();
  out.buffer_count = buffers.size();
  uint64_t cell = 0;
  const bool sent = session_ != nullptr && sk_session_comm(session_, &out, &cell) == SK_OK;
  if (!sent) {
    const std::string why = session_ != nullptr ? sk_last_error() : why_no_session_;
    std::fprintf(stderr, "sk kernel: %s: %s\n", type.c_str(), why.c_str());
    publish("comm_close", message.header, {{"comm_id", id}, {"data", {{"error", why}}}});
    return false;
  }
  if (out.kind == SK_COMM_OPEN) comms_.opened(id, target);
  if (out.kind == SK_COMM_CLOSE) comms_.closed(id);
  remember_parent(cell, message.header);
  comms_.begin(cell, message.header);
  return true;
}

void Front::on_rank_comm(const sk_event& event) {
  Json data = Json::parse(event.text, event.text + event.text_bytes, nullptr,
                          /*allow_exceptions=*/false);
  if (data.is_discarded()) {
    std::fprintf(stderr, "sk kernel: dropped a comm's message from rank %s: it is no JSON\n",
                 event.ranks);
    return;
  }
  const std::vector<std::string> buffers = buffers_of(event);
  if (event.answer == SK_COMM_MSG && comms_.keep_states(event.cell, event.comm, data, buffers))
    return;
  Json content = {{"comm_id", event.comm}, {"data", std::move(data)}};
  if (event.answer == SK_COMM_OPEN) {
    content["target_name"] = event.target;
    comms_.opened(event.comm, event.target);
  }
  if (event.answer == SK_COMM_CLOSE) comms_.closed(event.comm);
  Json metadata = Json::parse(event.metadata, nullptr, /*allow_exceptions=*/false);
  if (!metadata.is_object()) metadata = Json::object();
  if (rank_count_ > 1) metadata["superkernel"] = {{"ranks", event.ranks}};
  const char* type = event.answer == SK_COMM_OPEN    ? "comm_open"
                     : event.answer == SK_COMM_CLOSE ? "comm_close"
                                                     : "comm_msg";
  publish(type, parent_of(event.cell), content, metadata, buffers);
}

void Front::end_comm_cell(uint64_t cell) {
  const auto header = comms_.end(cell);
  if (!header) return;
  if (const auto states = comms_.states(cell))
    publish("comm_msg", *header, {{"comm_id", states->comm}, {"data", states->data}},
            Json::object(), states->buffers);
  publish_status("idle", *header);
}

}  // namespace sk::kernel
