#include "lib/control/journal.h"

#include <fmt/format.h>

#include <utility>

#include "lib/control/merge/view.h"
#include "lib/control/text.h"

namespace sk::control {
namespace {

uint64_t bytes_of(const Event& event) {
  uint64_t bytes = 0;
  for (const Mime& mime : event.mimes) bytes += mime.type.size() + mime.data.size();
  return bytes;
}

Event stderr_line(uint64_t cell, std::string text) {
  Event event;
  event.kind = SK_EVENT_STREAM;
  event.cell = cell;
  event.stream = SK_STREAM_STDERR;
  event.text = std::move(text);
  return event;
}

}  // namespace

void Journal::begin(uint64_t cell, std::string tag) { entries_[cell].tag = std::move(tag); }

void Journal::add(const Event& event, bool heard) {
  const bool shows = event.kind == SK_EVENT_STREAM || event.kind == SK_EVENT_DISPLAY ||
                     event.kind == SK_EVENT_ERROR;
  const bool frames = event.kind == SK_EVENT_CELL_START || event.kind == SK_EVENT_CELL_DONE;
  if (event.cell == 0 || (!shows && !frames)) return;
  auto found = entries_.find(event.cell);
  if (found == entries_.end()) {
    if (heard || !shows) return;
    found = entries_.emplace(event.cell, Entry{}).first;
    found->second.loose = true;
  }
  Entry& entry = found->second;
  if (event.kind == SK_EVENT_CELL_START) entry.start = event;
  if (event.kind == SK_EVENT_CELL_DONE) entry.done = event;
  if (shows) add_to_view(entry, event);
}

void Journal::add_to_view(Entry& entry, const Event& event) {
  const bool clears = event.kind == SK_EVENT_DISPLAY &&
                      (event.display == SK_DISPLAY_CLEAR || event.display == SK_DISPLAY_CLEAR_WAIT);
  if (clears) {
    entry.view.clear();
    entry.elided.clear();
    entry.display_bytes = entry.displays_elided = 0;
    return;
  }
  if (event.kind == SK_EVENT_DISPLAY) {
    entry.display_bytes += bytes_of(event);
    if (entry.display_bytes > kDisplayBytesMax) {
      entry.display_bytes -= bytes_of(event);
      ++entry.displays_elided;
      return;
    }
  }
  append_event(entry.view, event);
  std::string& text = entry.view.back().text;
  if (text.size() <= 4 * kStreamKept) return;
  entry.elided[entry.view.size() - 1] += text.size() - 2 * kStreamKept;
  text.erase(kStreamKept, text.size() - 2 * kStreamKept);
}

void Journal::acknowledge(uint64_t cell) {
  const auto found = entries_.find(cell);
  if (found != entries_.end() && found->second.done) entries_.erase(found);
}

std::vector<Event> Journal::view_of(const Entry& entry) {
  std::vector<Event> view = entry.view;
  for (const auto& [place, bytes] : entry.elided) {
    std::string& text = view[place].text;
    text.insert(
        std::min<size_t>(kStreamKept, text.size()),
        fmt::format("\n... {} bytes elided: no notebook was there to show them ...\n", bytes));
    text = utf8_clean(text);  // The cuts may be inside a character.
  }
  return view;
}

std::vector<Event> Journal::replay() {
  std::vector<Event> events;
  for (auto it = entries_.begin(); it != entries_.end();) {
    const auto& [cell, entry] = *it;
    if (!entry.loose && !entry.start && !entry.done) {
      Event queued;
      queued.kind = SK_EVENT_CELL_QUEUED;
      queued.cell = cell;
      queued.tag = entry.tag;
      events.push_back(std::move(queued));
    }
    std::vector<Event> view = view_of(entry);
    if (!entry.loose && (entry.start || entry.done)) {
      Event start = entry.start.value_or(Event{});
      start.kind = SK_EVENT_CELL_START;
      start.cell = cell;
      start.tag = entry.tag;
      events.push_back(std::move(start));
      Event clear;
      clear.kind = SK_EVENT_DISPLAY;
      clear.display = view.empty() ? SK_DISPLAY_CLEAR : SK_DISPLAY_CLEAR_WAIT;
      clear.cell = cell;
      events.push_back(std::move(clear));
    }
    for (Event& event : view) events.push_back(std::move(event));
    if (entry.displays_elided > 0)
      events.push_back(stderr_line(
          cell, fmt::format("... {} displays elided: no notebook was there to show them ...\n",
                            entry.displays_elided)));
    if (entry.done) events.push_back(*entry.done);
    it = entry.loose ? entries_.erase(it) : std::next(it);
  }
  return events;
}

}  // namespace sk::control
