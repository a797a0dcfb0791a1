#include "lib/control/host/talk_views.h"

#include <algorithm>
#include <cstring>

#include "lib/control/host/arguments.h"

namespace sk::control {
namespace {

constexpr uint64_t kLineBytesMax = 1ull << 20;
constexpr uint64_t kCommBytesMax = 64ull << 20;
constexpr uint64_t kReplyBytesMax = 16ull << 20;
constexpr uint64_t kBuffersMax = 65'536;
constexpr uint64_t kNamesMax = 65'536;

std::string or_empty(const char* text) { return text == nullptr ? "" : text; }

// The language's or front end's parser has the last word; what is plainly no object ends here.
Status check_object(const char* call, const char* name, const std::string& json) {
  if (json.starts_with('{') && json.ends_with('}')) return {};
  return error(SK_ERR_INVALID_ARGUMENT, "{}: {} is \"{}\"; it must be a JSON object", call, name,
               json.substr(0, 80));
}

Status check_name(const char* call, const char* what, const std::string& name) {
  if (!name.empty() && name.size() <= kCommNameMax) return {};
  return error(SK_ERR_INVALID_ARGUMENT, "{}: {} has {} bytes; 1 to {} are allowed", call, what,
               name.size(), kCommNameMax);
}

}  // namespace

Result<Comm> to_comm(const char* call, const sk_comm_message* message) {
  if (message == nullptr) return error(SK_ERR_INVALID_ARGUMENT, "{}: message is NULL", call);
  SK_ASSIGN_OR_RETURN(const sk_comm_message m, read_struct("sk_comm_message", message));
  if (m.kind < SK_COMM_OPEN || m.kind > SK_COMM_CLOSE)
    return error(SK_ERR_INVALID_ARGUMENT, "{}: kind is {}; OPEN, MSG and CLOSE are allowed", call,
                 m.kind);
  if (m.data == nullptr && m.data_bytes > 0)
    return error(SK_ERR_INVALID_ARGUMENT, "{}: data is NULL but has {} bytes", call, m.data_bytes);
  if (m.buffer_count > kBuffersMax || (m.buffers == nullptr && m.buffer_count > 0))
    return error(SK_ERR_INVALID_ARGUMENT, "{}: {} buffers{}; 0 to {} are allowed", call,
                 m.buffer_count, m.buffers == nullptr ? " at NULL" : "", kBuffersMax);
  uint64_t bytes = m.data_bytes;
  for (uint64_t i = 0; i < m.buffer_count; ++i) {
    if (m.buffers[i].data == nullptr && m.buffers[i].bytes > 0)
      return error(SK_ERR_INVALID_ARGUMENT, "{}: buffers[{}].data is NULL but has {} bytes", call,
                   i, m.buffers[i].bytes);
    bytes += std::min(m.buffers[i].bytes, kCommBytesMax + 1);
  }
  if (m.data_bytes > kCommBytesMax || bytes > kCommBytesMax)
    return error(SK_ERR_OUT_OF_RANGE, "{}: {} bytes of data and buffers; the limit is {}", call,
                 bytes, kCommBytesMax);
  Comm comm;
  comm.kind = static_cast<uint32_t>(m.kind);
  comm.id = or_empty(m.comm);
  comm.target = or_empty(m.target);
  comm.data = m.data_bytes == 0 ? "{}" : std::string(m.data, m.data_bytes);
  comm.metadata = m.metadata == nullptr ? "{}" : m.metadata;
  SK_RETURN_IF_ERROR(check_name(call, "comm", comm.id));
  if (m.kind == SK_COMM_OPEN) SK_RETURN_IF_ERROR(check_name(call, "target", comm.target));
  SK_RETURN_IF_ERROR(check_object(call, "metadata", comm.metadata));
  for (uint64_t i = 0; i < m.buffer_count; ++i)
    comm.buffers.emplace_back(static_cast<const char*>(m.buffers[i].data), m.buffers[i].bytes);
  return comm;
}

Result<InputReply> to_input_reply(uint64_t request, const char* text, uint64_t bytes) {
  if (text == nullptr && bytes > 0)
    return error(SK_ERR_INVALID_ARGUMENT, "answer: text is NULL but has {} bytes", bytes);
  if (bytes > kLineBytesMax)
    return error(SK_ERR_OUT_OF_RANGE, "answer: {} bytes of text; the limit is {}", bytes,
                 kLineBytesMax);
  if (text == nullptr) return InputReply{request, SK_INPUT_EOF, ""};
  return InputReply{request, SK_INPUT_TEXT, std::string(text, bytes)};
}

Result<std::vector<Snapshot::Name>> to_names(const char* root, const sk_name* names,
                                             uint64_t count) {
  if (root == nullptr) return error(SK_ERR_INVALID_ARGUMENT, "sk_worker_snapshot: root is NULL");
  if (count > kNamesMax || (names == nullptr && count > 0))
    return error(SK_ERR_INVALID_ARGUMENT, "sk_worker_snapshot: {} names{}; 0 to {} are allowed",
                 count, names == nullptr ? " at NULL" : "", kNamesMax);
  std::vector<Snapshot::Name> out;
  out.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    if (names[i].name == nullptr)
      return error(SK_ERR_INVALID_ARGUMENT, "sk_worker_snapshot: names[{}].name is NULL", i);
    out.push_back({names[i].name, or_empty(names[i].help)});
  }
  return out;
}

Result<std::string> to_cell_reply(const char* json, uint64_t bytes) {
  if (json == nullptr)
    return error(SK_ERR_INVALID_ARGUMENT, "sk_worker_cell_reply: json is NULL; {{}} is empty");
  if (bytes > kReplyBytesMax)
    return error(SK_ERR_OUT_OF_RANGE, "sk_worker_cell_reply: {} bytes; the limit is {}", bytes,
                 kReplyBytesMax);
  std::string text(json, bytes);
  SK_RETURN_IF_ERROR(check_object("sk_worker_cell_reply", "json", text));
  return text;
}

void InputView::fill(std::optional<InputReply> reply, sk_input* out) {
  reply_ = reply ? std::move(*reply) : InputReply{};
  sk_input view{};
  view.state = static_cast<int32_t>(reply_.state);
  view.text = reply_.text.c_str();
  view.bytes = reply_.text.size();
  fill_struct(view, out);
}

}  // namespace sk::control
