// How output is shown and kept: the session's settings, the logs of cells, what comes late.
#include <fmt/format.h>

#include <algorithm>

#include "lib/control/controller.h"

namespace sk::control {
namespace {

constexpr uint64_t kKeptBytes = 64ull << 20;

}  // namespace

void Controller::on_configure(const Configure& settings) {
  if (settings.tag != 0) settings_.tag = settings.tag;
  if (settings.shown_lines != 0) settings_.shown_lines = settings.shown_lines;
  if (settings.shown_bytes != 0) settings_.shown_bytes = settings.shown_bytes;
  if (settings.kept_bytes != 0) settings_.kept_bytes = settings.kept_bytes;
}

void Controller::on_log_request(const LogRequest& request) { answer(logs_.answer(request)); }

ViewStyle Controller::style_of(const Execute& request) const {
  ViewStyle style;
  if (settings_.tag != 0) style.tag = settings_.tag;
  // Tools read hidden cells' output as one process's plain stream.
  if (!request.store_history) style.tag = SK_TAG_NONE;
  style.host = job_.host;
  const auto number =
      request.execution_count > 0 ? static_cast<uint64_t>(request.execution_count) : request.cell;
  style.log = notebook_ ? fmt::format("%sk log {}", number)
                        : fmt::format("in the log of cell {}", request.cell);
  style.past = &display_ids_;
  style.world_size = static_cast<uint32_t>(ranks_.size());
  style.live_id = fmt::format("sk-live-{}", request.cell);
  if (settings_.shown_lines != 0) style.limits.lines = settings_.shown_lines;
  if (settings_.shown_bytes != 0) style.limits.bytes = settings_.shown_bytes;
  return style;
}

void Controller::start_log(const Execute& request, const RankSet& target) {
  logs_.start(request.cell, request.execution_count, target,
              settings_.kept_bytes == 0 ? kKeptBytes : settings_.kept_bytes);
}

// What no running cell collects: of threads and children that outlived theirs, and of handlers of
// comm messages.
void Controller::show_late(uint32_t rank, uint64_t cell, const Record& record, int64_t now_ns) {
  Execute of;
  of.cell = cell;
  of.execution_count = logs_.execution_count(cell);
  late_.add(cell, rank, record, all_ranks(static_cast<uint32_t>(ranks_.size())), style_of(of),
            now_ns);
}

void Controller::flush_late() { show_all_late(late_.flush()); }

void Controller::emit_late(int64_t now_ns) { show_all_late(late_.due(now_ns)); }

void Controller::show_all_late(std::vector<Event> events) {
  std::vector<Event> kept;
  for (const Event& event : events)
    if (!event.display_id.empty() && !late_.redraws(event.cell)) kept.push_back(event);
  display_ids_.learn(kept, "");  // Later updates mean these.
  for (Event& event : events) emit(std::move(event));
}

}  // namespace sk::control
