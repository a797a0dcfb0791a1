#include "lib/control/host/views.h"

#include <algorithm>

#include "lib/base/structs.h"
#include "lib/control/rank_set.h"

namespace sk::control {
namespace {

std::vector<const char*> pointers(const std::vector<std::string>& strings) {
  std::vector<const char*> out;
  for (const std::string& s : strings) out.push_back(s.c_str());
  return out;
}

void view_buffers(const std::vector<std::string>& buffers, std::vector<sk_mime>& out) {
  out.clear();
  for (const std::string& bytes : buffers)
    out.push_back({"application/octet-stream", bytes.data(), bytes.size()});
}

}  // namespace

// One for each rank; those that are alike share the lines.
void EventView::view_errors() {
  errors_.clear();
  error_lines_.clear();
  error_lines_.reserve(event_.errors.size());
  for (const RankErrors& each : event_.errors) {
    const auto& lines = error_lines_.emplace_back(pointers(each.error.traceback));
    for (const uint32_t rank : each.ranks)
      errors_.push_back({static_cast<int32_t>(rank), each.error.flags, each.error.ename.c_str(),
                         each.error.evalue.c_str(), lines.data(), lines.size()});
  }
  // Of one rank they stay in the order in which they happened.
  std::stable_sort(errors_.begin(), errors_.end(),
                   [](const sk_rank_error& a, const sk_rank_error& b) { return a.rank < b.rank; });
}

void EventView::fill(Event event, sk_event* out) {
  event_ = std::move(event);
  traceback_ = pointers(event_.traceback);
  strings_ = pointers(event_.reply.strings);
  view_buffers(event_.comm.buffers, mimes_);
  const bool reply = event_.kind == SK_EVENT_REPLY;
  for (const Mime& mime : reply ? event_.reply.mimes : event_.mimes)
    mimes_.push_back({mime.type.c_str(), mime.data.data(), mime.data.size()});
  times_.clear();
  for (const RankTime& time : event_.times)
    times_.push_back({static_cast<int32_t>(time.rank), 0, time.wall_ns, time.cpu_ns});
  view_errors();
  sk_event view{};
  view.kind = static_cast<int32_t>(event_.kind);
  view.seq = event_.seq;
  view.cell = event_.cell;
  view.request = event_.reply.request;
  view.ranks = event_.ranks.c_str();
  view.all_ranks = event_.all_ranks ? 1 : 0;
  view.status = event_.status;
  view.stream = static_cast<int32_t>(event_.stream);
  view.display = static_cast<int32_t>(event_.display);
  view.text = event_.text.c_str();
  view.text_bytes = event_.text.size();
  view.ename = event_.ename.c_str();
  view.evalue = event_.evalue.c_str();
  view.traceback = traceback_.data();
  view.traceback_count = traceback_.size();
  view.mimes = mimes_.data();
  view.mime_count = mimes_.size();
  view.display_id = event_.display_id.c_str();
  view.answer = event_.reply.answer;
  view.start = event_.reply.start;
  view.end = event_.reply.end;
  view.strings = strings_.data();
  view.string_count = strings_.size();
  view.metadata = (reply ? event_.reply.metadata : event_.metadata).c_str();
  view.times = times_.data();
  view.tag = event_.tag.c_str();
  view.time_count = times_.size();
  view.comm = event_.comm.id.c_str();
  view.target = event_.comm.target.c_str();
  if (event_.kind == SK_EVENT_COMM) {
    view.answer = static_cast<int32_t>(event_.comm.kind);
    view.text = event_.comm.data.c_str();
    view.text_bytes = event_.comm.data.size();
    view.metadata = event_.comm.metadata.c_str();
  }
  view.total = event_.reply.total;
  view.errors = errors_.data();
  view.error_count = errors_.size();
  fill_struct(view, out);
}

void RequestView::fill(Worker::Request request, sk_request* out) {
  request_ = std::move(request);
  sk_request view{};
  view.code = view.expressions = view.comm = view.target = view.metadata = "";
  if (const auto* execute = std::get_if<Execute>(&request_)) {
    view.kind = static_cast<int32_t>(execute->kind);
    view.id = execute->cell;
    view.code = execute->code.c_str();
    view.code_bytes = execute->code.size();
    view.execution_count = execute->execution_count;
    view.silent = execute->silent ? 1 : 0;
    view.store_history = execute->store_history ? 1 : 0;
    view.expressions = execute->expressions.c_str();
  } else if (const auto* ask = std::get_if<Ask>(&request_)) {
    view.kind = static_cast<int32_t>(ask->kind);
    view.id = ask->request;
    view.code = ask->code.c_str();
    view.code_bytes = ask->code.size();
    view.cursor = ask->cursor;
    view.detail = ask->detail;
  } else if (const auto* comm = std::get_if<Comm>(&request_)) {
    view.kind = SK_REQUEST_COMM;
    view.id = comm->cell;
    view.code = comm->data.c_str();
    view.code_bytes = comm->data.size();
    view.comm_kind = static_cast<int32_t>(comm->kind);
    view.comm = comm->id.c_str();
    view.target = comm->target.c_str();
    view.metadata = comm->metadata.c_str();
    view_buffers(comm->buffers, buffers_);
    view.buffers = buffers_.data();
    view.buffer_count = buffers_.size();
  } else if (std::holds_alternative<Shutdown>(request_)) {
    view.kind = SK_REQUEST_SHUTDOWN;
  }
  fill_struct(view, out);
}

}  // namespace sk::control
