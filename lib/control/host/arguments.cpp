#include "lib/control/host/arguments.h"

#include <fcntl.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "lib/control/codec.h"
#include "lib/control/notes.h"
#include "lib/control/rank_set.h"

namespace sk::control {
namespace {

constexpr uint64_t kCodeBytesMax = 64ull << 20;
constexpr int64_t kTimeoutMsMax = 3'600'000;
constexpr uint64_t kListMax = 65'536;
constexpr uint64_t kTagBytesMax = 1 << 20;

std::string or_empty(const char* text) { return text == nullptr ? "" : text; }

Status check_code(const char* call, const char* code, uint64_t bytes) {
  if (code == nullptr && bytes > 0)
    return error(SK_ERR_INVALID_ARGUMENT, "{}: code is NULL but has {} bytes", call, bytes);
  if (bytes > kCodeBytesMax)
    return error(SK_ERR_OUT_OF_RANGE, "{}: {} bytes of code; the limit is {}", call, bytes,
                 kCodeBytesMax);
  return {};
}

}  // namespace

Result<std::vector<Mime>> to_mimes(const char* call, const sk_mime* mimes, uint64_t count) {
  if (count > 256 || (mimes == nullptr && count > 0))
    return error(SK_ERR_INVALID_ARGUMENT, "{}: {} MIME types{}; 0 to 256 are allowed", call, count,
                 mimes == nullptr ? " at NULL" : "");
  std::vector<Mime> out;
  for (uint64_t i = 0; i < count; ++i) {
    const sk_mime& mime = mimes[i];
    const std::string type = or_empty(mime.type);
    const bool printable =
        std::all_of(type.begin(), type.end(), [](unsigned char c) { return c > 0x20 && c < 0x7f; });
    if (type.find('/') == std::string::npos || type.size() > 255 || !printable)
      return error(SK_ERR_INVALID_ARGUMENT, "{}: mimes[{}].type is \"{}\", no MIME type", call, i,
                   type.substr(0, 80));
    if (mime.data == nullptr && mime.bytes > 0)
      return error(SK_ERR_INVALID_ARGUMENT, "{}: mimes[{}].data is NULL but has {} bytes", call, i,
                   mime.bytes);
    if (mime.bytes > kDisplayBytesMax)
      return error(SK_ERR_OUT_OF_RANGE, "{}: mimes[{}] has {} bytes; the limit is {}", call, i,
                   mime.bytes, kDisplayBytesMax);
    out.push_back({type, std::string(static_cast<const char*>(mime.data), mime.bytes)});
  }
  return out;
}

Result<std::vector<std::string>> to_strings(const char* call, const char* what,
                                            const char* const* strings, uint64_t count) {
  if (count > kListMax || (strings == nullptr && count > 0))
    return error(SK_ERR_INVALID_ARGUMENT, "{}: {} {}{}; 0 to {} are allowed", call, count, what,
                 strings == nullptr ? " at NULL" : "", kListMax);
  std::vector<std::string> out;
  for (uint64_t i = 0; i < count; ++i) {
    if (strings[i] == nullptr)
      return error(SK_ERR_INVALID_ARGUMENT, "{}: {}[{}] is NULL", call, what, i);
    out.emplace_back(strings[i]);
  }
  return out;
}

std::vector<std::string> to_strings(const char* const* strings) {
  std::vector<std::string> out;
  for (; strings != nullptr && *strings != nullptr; ++strings) out.emplace_back(*strings);
  return out;
}

Result<OpenArguments> to_open(const sk_session_config* config) {
  if (config == nullptr) return error(SK_ERR_INVALID_ARGUMENT, "sk_session_open: config is NULL");
  SK_ASSIGN_OR_RETURN(const sk_session_config c, read_struct("sk_session_config", config));
  if (c.ranks < 1 || c.ranks > static_cast<int32_t>(kRankCountMax))
    return error(SK_ERR_INVALID_ARGUMENT, "session: ranks is {}; 1 to {} are allowed", c.ranks,
                 kRankCountMax);
  if ((c.flags & ~uint32_t(SK_SESSION_TEMPLATE | SK_SESSION_NOTEBOOK)) != 0)
    return error(SK_ERR_INVALID_ARGUMENT, "session: flags is {:#x}; known are 0x1 and 0x2",
                 c.flags);
  if (c.start_timeout_ms < 0 || c.lease_ms < 0 || c.interrupt_ms < 0)
    return error(SK_ERR_INVALID_ARGUMENT,
                 "session: start_timeout_ms is {}, lease_ms {} and interrupt_ms {}; "
                 "none may be negative",
                 c.start_timeout_ms, c.lease_ms, c.interrupt_ms);
  for (const auto& [name, ms] :
       {std::pair("start_timeout_ms", c.start_timeout_ms), std::pair("lease_ms", c.lease_ms),
        std::pair("interrupt_ms", c.interrupt_ms)})
    if (static_cast<uint64_t>(ms) > kMillisMax)
      return error(SK_ERR_OUT_OF_RANGE, "session: {} is {}; at most {} is allowed", name, ms,
                   kMillisMax);
  if (c.reserved != 0)
    return error(SK_ERR_INVALID_ARGUMENT, "session: reserved is {}; it must be 0", c.reserved);
  Open open;
  open.ranks = static_cast<uint32_t>(c.ranks);
  open.argv = to_strings(c.argv);
  if (open.argv.empty() || open.argv[0].empty())
    return error(SK_ERR_INVALID_ARGUMENT,
                 "session: the rank program (argv) is empty; give a program and its arguments");
  open.env = to_strings(c.env);
  for (const std::string& line : open.env)
    if (line.find('=') == std::string::npos || line[0] == '=')
      return error(SK_ERR_INVALID_ARGUMENT, "session: env has \"{}\", which is not NAME=value",
                   line);
  open.cwd = or_empty(c.cwd);
  if (c.start_timeout_ms > 0) open.start_timeout_ms = static_cast<uint64_t>(c.start_timeout_ms);
  open.lease_ms = static_cast<uint64_t>(c.lease_ms);
  open.forks = (c.flags & SK_SESSION_TEMPLATE) != 0;
  open.notebook = (c.flags & SK_SESSION_NOTEBOOK) != 0;
  open.interrupt_ms = static_cast<uint64_t>(c.interrupt_ms);
  open.name = or_empty(c.name);
  open.token = or_empty(c.token);
  if (!open.name.empty() || !open.token.empty())
    SK_RETURN_IF_ERROR(check_name(open.name, open.token));
  return OpenArguments{std::move(open), or_empty(c.sk_path)};
}

Result<Execute> to_execute(const char* ranks, const char* code, uint64_t code_bytes,
                           const sk_exec_options* options) {
  SK_RETURN_IF_ERROR(check_code("cell", code, code_bytes));
  SK_ASSIGN_OR_RETURN(const sk_exec_options o, read_struct("sk_exec_options", options));
  if (o.execution_count < 0)
    return error(SK_ERR_INVALID_ARGUMENT, "cell: execution_count is {}; it may not be negative",
                 o.execution_count);
  if (o.kind != 0 && o.kind != SK_REQUEST_EXECUTE && o.kind != SK_REQUEST_ACTION)
    return error(SK_ERR_INVALID_ARGUMENT, "cell: kind is {}; EXECUTE and ACTION are allowed",
                 o.kind);
  if (ranks != nullptr && *ranks == '\0')
    return error(SK_ERR_INVALID_ARGUMENT,
                 "cell: the rank set is empty; without one it is all ranks");
  Execute request;
  request.ranks = or_empty(ranks);
  request.code.assign(code == nullptr ? "" : code, code_bytes);
  request.silent = o.silent != 0;
  request.store_history = o.no_history == 0 && o.silent == 0;
  request.go_on = o.go_on_after_error != 0;
  request.execution_count = o.execution_count;
  if (o.kind != 0) request.kind = static_cast<uint32_t>(o.kind);
  request.allow_input = o.allow_input != 0;
  request.tag = or_empty(o.tag);
  if (request.tag.size() > kTagBytesMax)
    return error(SK_ERR_OUT_OF_RANGE, "cell: a tag of {} bytes; the limit is {}",
                 request.tag.size(), kTagBytesMax);
  request.expressions = or_empty(o.expressions);
  if (!request.expressions.empty() && !request.expressions.starts_with('{'))
    return error(SK_ERR_INVALID_ARGUMENT, "cell: expressions is \"{}\"; it must be a JSON object",
                 request.expressions.substr(0, 80));
  return request;
}

Result<Ask> to_ask(int32_t kind, const char* code, uint64_t code_bytes, uint64_t cursor,
                   int32_t detail) {
  SK_RETURN_IF_ERROR(check_code("session", code, code_bytes));
  if (kind < SK_REQUEST_COMPLETE || kind > SK_REQUEST_IS_COMPLETE)
    return error(SK_ERR_INVALID_ARGUMENT,
                 "session: kind is {}; COMPLETE, INSPECT and IS_COMPLETE are allowed", kind);
  if (cursor > code_bytes)
    return error(SK_ERR_OUT_OF_RANGE, "session: cursor is {} in {} bytes of code", cursor,
                 code_bytes);
  if (detail < 0 || detail > 1)
    return error(SK_ERR_INVALID_ARGUMENT, "session: detail is {}; 0 and 1 are allowed", detail);
  Ask ask;
  ask.kind = static_cast<uint32_t>(kind);
  ask.code.assign(code == nullptr ? "" : code, code_bytes);
  ask.cursor = cursor;
  ask.detail = detail;
  return ask;
}

Result<Configure> to_configure(const sk_session_settings* settings) {
  if (settings == nullptr)
    return error(SK_ERR_INVALID_ARGUMENT, "sk_session_configure: settings is NULL");
  SK_ASSIGN_OR_RETURN(const sk_session_settings s, read_struct("sk_session_settings", settings));
  if (s.tag < 0 || s.tag > SK_TAG_HOST)
    return error(SK_ERR_INVALID_ARGUMENT,
                 "session: tag is {}; SET, NONE, SPEC and HOST (1 to 4) are allowed", s.tag);
  const auto check = [](const char* name, uint64_t value, uint64_t least, uint64_t most) -> Status {
    if (value == 0 || (value >= least && value <= most)) return {};
    return error(SK_ERR_OUT_OF_RANGE, "session: {} is {}; {} to {} are allowed", name, value, least,
                 most);
  };
  SK_RETURN_IF_ERROR(check("shown_lines", s.shown_lines, 16, kShownLinesMax));
  SK_RETURN_IF_ERROR(check("shown_bytes", s.shown_bytes, 4096, kShownBytesMax));
  SK_RETURN_IF_ERROR(check("kept_bytes", s.kept_bytes, 65'536, kKeptBytesMax));
  return Configure{static_cast<uint32_t>(s.tag), s.shown_lines, s.shown_bytes, s.kept_bytes};
}

Result<LogRequest> to_log_request(const sk_log_query* query) {
  if (query == nullptr) return error(SK_ERR_INVALID_ARGUMENT, "sk_session_log: query is NULL");
  SK_ASSIGN_OR_RETURN(const sk_log_query q, read_struct("sk_log_query", query));
  if (q.what < 0 || q.what > SK_LOG_DISPLAY)
    return error(SK_ERR_INVALID_ARGUMENT, "log: what is {}; TEXT and DISPLAY (1 and 2) are allowed",
                 q.what);
  if (q.execution_count < 0 || q.offset > 1ull << 48)
    return error(SK_ERR_OUT_OF_RANGE,
                 "log: execution_count is {} and offset {}; no cell and no log has those",
                 q.execution_count, q.offset);
  LogRequest request;
  request.what = q.what == 0 ? uint32_t(SK_LOG_TEXT) : static_cast<uint32_t>(q.what);
  request.cell = q.cell;
  request.execution_count = q.execution_count;
  request.ranks = or_empty(q.ranks);
  request.offset = q.offset;
  request.limit = q.limit;
  return request;
}

Result<WorkerConfig> to_worker_config(const sk_worker_config* config) {
  SK_ASSIGN_OR_RETURN(const sk_worker_config c, read_struct("sk_worker_config", config));
  if ((c.flags & ~uint32_t(SK_WORKER_CAPTURE | SK_WORKER_SIGINT | SK_WORKER_EVENT_LOOP)) != 0)
    return error(SK_ERR_INVALID_ARGUMENT,
                 "sk_worker_join: flags is {:#x}; known are 0x1, 0x2 and 0x4", c.flags);
  if (c.stack_signal != 0 && (c.stack_signal < SIGRTMIN || c.stack_signal > SIGRTMAX))
    return error(SK_ERR_INVALID_ARGUMENT,
                 "sk_worker_join: stack_signal is {}; 0 or a real-time signal, {} to {}",
                 c.stack_signal, SIGRTMIN, SIGRTMAX);
  const bool asks = c.language_stack_signal != 0;
  if (c.language_stack_signal < 0 || c.language_stack_signal > SIGRTMAX ||
      (asks && c.language_stack_signal == c.stack_signal) ||
      (asks && fcntl(c.language_stack_fd, F_GETFD) < 0))
    return error(SK_ERR_INVALID_ARGUMENT,
                 "sk_worker_join: language_stack_signal is {} and language_stack_fd {}; both 0, or "
                 "a signal other than stack_signal and an open descriptor",
                 c.language_stack_signal, c.language_stack_fd);
  return WorkerConfig{(c.flags & SK_WORKER_CAPTURE) != 0,
                      (c.flags & SK_WORKER_SIGINT) != 0,
                      (c.flags & SK_WORKER_EVENT_LOOP) != 0,
                      or_empty(c.language).substr(0, 256),
                      {c.stack_signal, c.language_stack_signal, asks ? c.language_stack_fd : -1},
                      {},
                      c.signal_waits};
}

Result<DisplayRecord> to_display(int32_t kind, const sk_mime* mimes, uint64_t mime_count,
                                 const char* display_id, const char* metadata) {
  if (kind < SK_DISPLAY_DATA || kind > SK_DISPLAY_PAGE)
    return error(SK_ERR_INVALID_ARGUMENT, "sk_worker_display: kind is {}; 1 to 6 are allowed",
                 kind);
  DisplayRecord record{static_cast<uint32_t>(kind), {}, or_empty(display_id), or_empty(metadata)};
  if (record.display_id.size() > 4096)
    return error(SK_ERR_OUT_OF_RANGE,
                 "sk_worker_display: display_id of {} bytes; the limit is 4096",
                 record.display_id.size());
  if (record.metadata.size() > kMetadataBytesMax)
    return error(SK_ERR_OUT_OF_RANGE, "sk_worker_display: metadata of {} bytes; the limit is {}",
                 record.metadata.size(), kMetadataBytesMax);
  // A whole JSON parser is the front end's; what is plainly no object is refused here.
  const bool object = record.metadata.starts_with('{') && record.metadata.ends_with('}');
  if (!record.metadata.empty() && !object)
    return error(SK_ERR_INVALID_ARGUMENT,
                 "sk_worker_display: metadata is \"{}\"; it must be a JSON object",
                 record.metadata.substr(0, 80));
  SK_ASSIGN_OR_RETURN(record.mimes, to_mimes("sk_worker_display", mimes, mime_count));
  return record;
}

Result<ErrorRecord> to_error(const char* ename, const char* evalue, const char* const* traceback,
                             uint64_t traceback_count, uint32_t flags) {
  if (flags > (SK_ERROR_CONSEQUENCE | SK_ERROR_INTERRUPT))
    return error(SK_ERR_INVALID_ARGUMENT, "sk_worker_error: flags is {:#x}; known are 0x1 and 0x2",
                 flags);
  ErrorRecord record{or_empty(ename), or_empty(evalue), {}, flags};
  SK_ASSIGN_OR_RETURN(record.traceback,
                      to_strings("sk_worker_error", "traceback", traceback, traceback_count));
  return record;
}

Result<Reply> to_reply(uint64_t id, const sk_reply* reply) {
  SK_ASSIGN_OR_RETURN(const sk_reply r, read_struct("sk_reply", reply));
  if (r.start > r.end || r.answer < 0 || r.answer > SK_COMPLETE_INVALID)
    return error(SK_ERR_INVALID_ARGUMENT,
                 "sk_worker_reply: start is {}, end {}, answer {}; start <= end and answer 0 to 3",
                 r.start, r.end, r.answer);
  Reply out;
  out.request = id;
  out.answer = r.answer;
  out.start = r.start;
  out.end = r.end;
  SK_ASSIGN_OR_RETURN(out.strings,
                      to_strings("sk_worker_reply", "strings", r.strings, r.string_count));
  SK_ASSIGN_OR_RETURN(out.mimes, to_mimes("sk_worker_reply", r.mimes, r.mime_count));
  return out;
}

Result<Ask> to_rank_ask(uint32_t kind, const char* ranks) {
  if (ranks != nullptr && *ranks == '\0')
    return error(SK_ERR_INVALID_ARGUMENT,
                 "session: the rank set is empty; without one it is all ranks");
  Ask ask;
  ask.kind = kind;
  ask.code = or_empty(ranks);
  return ask;
}

Result<Note> to_note(const std::string& name, const char* text, uint64_t bytes) {
  if (name.empty() || name.size() > kNoteNameMax)
    return error(SK_ERR_INVALID_ARGUMENT,
                 "session: the name of a text that is kept has {} bytes; 1 to {} are allowed",
                 name.size(), kNoteNameMax);
  if (text == nullptr && bytes > 0)
    return error(SK_ERR_INVALID_ARGUMENT, "session: text is NULL but has {} bytes", bytes);
  // The name alone says as much as one that does not fit beside others.
  if (bytes > Notes::kBytesMax) bytes = 0;
  return Note{name, std::string(text == nullptr ? "" : text, bytes), text != nullptr};
}

Status check_name(const std::string& name, const std::string& token) {
  constexpr const char* kCharacters = "0123456789abcdefghijklmnopqrstuvwxyz-";
  if (name.empty() || name.size() > 64 || name.find_first_not_of(kCharacters) != std::string::npos)
    return error(SK_ERR_INVALID_ARGUMENT,
                 "session: name is \"{}\"; 1 to 64 lower-case letters, digits and dashes are "
                 "allowed",
                 name.substr(0, 80));
  if (token.size() >= 16 && token.size() <= 256) return {};
  return error(SK_ERR_INVALID_ARGUMENT, "session: a token of {} bytes; 16 to 256 are allowed",
               token.size());
}

Status check_timeout(const char* call, int64_t timeout_ms) {
  if (timeout_ms >= 0 && timeout_ms <= kTimeoutMsMax) return {};
  return error(SK_ERR_INVALID_ARGUMENT, "{}: timeout_ms is {}; 0 to {} are allowed", call,
               timeout_ms, kTimeoutMsMax);
}

}  // namespace sk::control
