#include "lib/control/merge/view.h"

#include <algorithm>
#include <utility>

namespace sk::control {
namespace {

// The note in the middle of a view that was cut. It is a display, so that the one that was shown
// while the cell ran becomes it.
Event note_of(const std::vector<Column>& columns, size_t begin, size_t end, const RankSet& target,
              const ViewStyle& style) {
  uint64_t lines = 0, displays = 0;
  for (size_t i = begin; i < end; ++i) {
    for (const Group& group : columns[i]) {
      lines += group.item->kind == Item::Kind::kLine ? 1 : group.item->lines;
      displays += group.item->is_display() ? 1 : group.item->displays;
    }
  }
  Event note = display_event(SK_DISPLAY_DATA, {{"text/plain", elision(style, lines, displays)}},
                             target, true);
  note.display_id = style.live_id;
  return note;
}

std::vector<Event> render_cut(const std::vector<Column>& columns, const RankSet& target,
                              const ViewStyle& style, TagColumns* tags) {
  Weight total;
  bool elided = false;
  for (const Column& column : columns) {
    total.add(weight_of(column));
    elided = elided || has_elided(column);
  }
  if (!elided && total.within(style.limits)) {
    const std::vector<Column> ordered = reading_order(columns, target, style);
    *tags = tag_columns(ordered, target, style);
    return render_columns(ordered, target, style, *tags);
  }
  size_t head = 0, tail = columns.size();
  const ViewLimits head_limits = head_part(style.limits), tail_limits = tail_part(style.limits);
  Weight weight;
  for (; head < columns.size() && !has_elided(columns[head]); ++head) {
    weight.add(weight_of(columns[head]));
    if (!weight.within(head_limits)) break;
  }
  weight = {};
  for (; tail > head && !has_elided(columns[tail - 1]); --tail) {
    weight.add(weight_of(columns[tail - 1]));
    if (!weight.within(tail_limits)) break;
  }
  const auto at = [&](size_t place) { return columns.begin() + static_cast<ptrdiff_t>(place); };
  const auto first = reading_order({columns.begin(), at(head)}, target, style);
  const auto last = reading_order({at(tail), columns.end()}, target, style);
  *tags = tag_columns(first, target, style);
  tags->widen(tag_columns(last, target, style));
  std::vector<Event> out = render_columns(first, target, style, *tags);
  out.push_back(note_of(columns, head, tail, target, style));
  for (Event& event : render_columns(last, target, style, *tags)) out.push_back(std::move(event));
  return out;
}

// One rank's lines after the other's, never beside each other; displays as always.
std::vector<Column> arrange_by_rank(const std::vector<RankItems>& ranks) {
  std::vector<Column> columns;
  for (const uint32_t stream : {SK_STREAM_STDOUT, SK_STREAM_STDERR})
    for (const RankItems& rank : ranks)
      for (const Item* item : rank.items)
        if ((item->kind == Item::Kind::kLine && item->stream == stream) ||
            (item->kind == Item::Kind::kElided && stream == SK_STREAM_STDOUT))
          columns.push_back({Group{item, {rank.rank}}});
  std::vector<RankItems> displays;
  for (const RankItems& rank : ranks) {
    displays.push_back({rank.rank, {}});
    for (const Item* item : rank.items)
      if (item->is_display()) displays.back().items.push_back(item);
  }
  for (Column& column : align(displays)) columns.push_back(std::move(column));
  return columns;
}

bool same_content(const Event& a, const Event& b) {
  return a.kind == b.kind && a.stream == b.stream && a.display == b.display && a.text == b.text &&
         a.mimes == b.mimes && a.display_id == b.display_id && a.ename == b.ename &&
         a.evalue == b.evalue && a.traceback == b.traceback && a.metadata == b.metadata;
}

bool same_display(const Event& a, const Event& b) {
  return a.kind == SK_EVENT_DISPLAY && b.kind == SK_EVENT_DISPLAY && a.display == b.display &&
         !a.display_id.empty() && a.display_id == b.display_id;
}

size_t count_id(const std::vector<Event>& events, const std::string& id) {
  return static_cast<size_t>(std::count_if(
      events.begin(), events.end(), [&](const Event& event) { return event.display_id == id; }));
}

// What turns the text `old` into `next` at its end; nothing if the end is not enough.
std::optional<std::string> continuation(const std::string& old, const std::string& next,
                                        bool may_return, bool* returned) {
  if (next.starts_with(old)) return next.substr(old.size());
  const size_t line = old.rfind('\n') + 1;  // npos + 1 is 0.
  if (!may_return || next.compare(0, line, old, 0, line) != 0) return std::nullopt;
  std::string text = "\r" + next.substr(line);
  const size_t length = std::min(text.find('\n'), text.size()) - 1;
  // What the new line is shorter by is covered.
  if (length < old.size() - line) text.insert(length + 1, old.size() - line - length, ' ');
  *returned = true;
  return text;
}

}  // namespace

bool has_elided(const Column& column) {
  return std::any_of(column.begin(), column.end(),
                     [](const Group& group) { return group.item->kind == Item::Kind::kElided; });
}

Weight weight_of(const Column& column) {
  Weight weight;
  for (const Group& group : column) {
    weight.add(*group.item);
    weight.bytes += group.item->kind == Item::Kind::kLine && column.size() > 1 ? 8 : 0;  // The tag.
  }
  if (is_sheet(column)) weight.displays = 1;
  return weight;
}

std::vector<Column> arrange(const std::vector<RankItems>& ranks, const ViewStyle& style) {
  return style.tag == SK_TAG_SPEC ? arrange_by_rank(ranks) : align(ranks);
}

std::vector<Event> canonical_view(const RankLogs& logs, const RankSet& target,
                                  const ViewStyle& style, bool with_bars, TagColumns* tags) {
  std::vector<RankItems> items;
  for (const auto& [rank, log] : logs) items.push_back({rank, log.items(0, log.size(), with_bars)});
  std::vector<Event> view;
  TagColumns own;
  for (Event& event : render_cut(arrange(items, style), target, style, &own))
    append_event(view, std::move(event));
  if (tags != nullptr) *tags = own;
  size_t results = 0;
  for (const auto& [rank, log] : logs) results = std::max(results, log.results().size());
  for (size_t i = 0; i < results; ++i) {
    std::vector<RankResult> row;
    for (const auto& [rank, log] : logs)
      if (i < log.results().size()) row.push_back({rank, &log.results()[i]});
    if (!shows_itself(row, target)) append_event(view, render_result(row, target, style));
    for (Event& event : render_native_results(row, target, style))
      append_event(view, std::move(event));
  }
  return view;
}

void append_event(std::vector<Event>& shown, Event event) {
  if (event.kind == SK_EVENT_DISPLAY && event.display == SK_DISPLAY_UPDATE) {
    bool replaced = false;
    for (Event& old : shown) {
      if (old.display_id.empty() || old.display_id != event.display_id) continue;
      old.mimes = event.mimes;
      old.metadata = event.metadata;
      replaced = true;
    }
    if (replaced) return;
  }
  const bool joins = event.kind == SK_EVENT_STREAM && !shown.empty() &&
                     shown.back().kind == SK_EVENT_STREAM && shown.back().stream == event.stream;
  if (joins)
    shown.back().text += event.text;
  else
    shown.push_back(std::move(event));
}

std::optional<std::vector<Event>> difference(const std::vector<Event>& shown,
                                             const std::vector<Event>& wanted, bool may_return,
                                             bool* returned) {
  std::vector<Event> rest;
  if (wanted.size() < shown.size()) return std::nullopt;
  for (size_t i = 0; i < shown.size(); ++i) {
    const Event& old = shown[i];
    const Event& next = wanted[i];
    if (same_content(old, next)) continue;
    rest.push_back(next);
    if (same_display(old, next)) {
      if (count_id(shown, old.display_id) > 1) return std::nullopt;
      rest.back().display = SK_DISPLAY_UPDATE;
      continue;
    }
    // Only what stands last can grow.
    const bool both_streams = old.kind == SK_EVENT_STREAM && next.kind == SK_EVENT_STREAM;
    if (i + 1 != shown.size() || !both_streams || old.stream != next.stream) return std::nullopt;
    auto text = continuation(old.text, next.text, may_return, returned);
    if (!text) return std::nullopt;
    rest.back().text = std::move(*text);
  }
  rest.insert(rest.end(), wanted.begin() + static_cast<std::ptrdiff_t>(shown.size()), wanted.end());
  return rest;
}

}  // namespace sk::control
