#include "lib/control/merge/render.h"

#include <algorithm>
#include <set>
#include <utility>

#include "lib/base/html.h"
#include "lib/control/merge/blocks.h"
#include "lib/control/text.h"

namespace sk::control {
namespace {

size_t index_of(uint32_t stream) { return stream == SK_STREAM_STDERR ? 1 : 0; }

// Gathers neighbouring lines of one stream into one event.
class StreamWriter {
 public:
  StreamWriter(std::vector<Event>& out, const RankSet& target, const ViewStyle& style,
               const TagColumns& tags)
      : out_(out), target_(target), style_(style), tags_(tags) {}

  void line(const Group& group) {
    const size_t which = index_of(group.item->stream);
    if (turns_ < kTurnsMax && !texts_[1 - which].text.empty()) {
      ++turns_;
      flush();
    }
    Part& part = texts_[which];
    if (!part.text.empty() && part.text.back() != '\n') part.text += '\n';
    const bool tagged = is_tagged(style_, group.ranks, target_);
    if (tagged)
      part.text += tag_of(style_, group.ranks, tags_.width[which]);
    else if (!group.item->text.empty())
      part.text.append(tags_.width[which], ' ');
    part.text += group.item->text;
    if (group.item->cut > 0)
      part.text +=
          "… " + grouped(group.item->cut) + " more bytes of this line, " + log_hint(style_);
    const bool alone = group.ranks == target_ && !tagged;
    if (group.item->newline || !alone) part.text += '\n';
    part.ranks = merge_sets(part.ranks, group.ranks);
    part.all = part.all && group.ranks == target_;
  }

  void flush() {
    for (uint32_t which : {0u, 1u}) {
      Part part = std::exchange(texts_[which], {});
      if (part.text.empty()) continue;
      Event event;
      event.kind = SK_EVENT_STREAM;
      event.stream = which == 0 ? SK_STREAM_STDOUT : SK_STREAM_STDERR;
      event.text = std::move(part.text);
      event.ranks = format_ranks(part.ranks);
      event.all_ranks = part.all;
      out_.push_back(std::move(event));
    }
  }

 private:
  struct Part {
    std::string text;
    RankSet ranks;
    bool all = true;
  };
  std::vector<Event>& out_;
  const RankSet& target_;
  const ViewStyle& style_;
  const TagColumns& tags_;
  Part texts_[2];
  size_t turns_ = 0;
};

void add_heading(const RankSet& ranks, const std::string& what, std::vector<Event>& out) {
  const std::string heading = name_ranks(ranks) + what;
  out.push_back(
      display_event(SK_DISPLAY_DATA,
                    {{"text/plain", heading}, {"text/html", "<b>" + html_escape(heading) + "</b>"}},
                    ranks, false));
}

void render_display(const Group& group, const RankSet& target, const ViewStyle& style,
                    std::vector<Event>& out) {
  const bool all = group.ranks == target;
  const DisplayRecord& display = *group.item->display;
  if (!all && style.tag != SK_TAG_NONE) add_heading(group.ranks, "", out);
  Event event = display_event(SK_DISPLAY_DATA, display.mimes, group.ranks, all);
  // Two ranks' displays may carry the same id; an update of one must not change the other.
  event.display_id = shown_id(display.display_id, group.ranks, all);
  event.metadata = display.metadata;
  out.push_back(std::move(event));
}

// An update of a display that an earlier cell made.
void render_update(const Group& group, const RankSet& target, const ViewStyle& style,
                   std::vector<Event>& out) {
  const bool all = group.ranks == target;
  const DisplayRecord& display = *group.item->display;
  Event event = display_event(SK_DISPLAY_UPDATE, display.mimes, group.ranks, all);
  event.metadata = display.metadata;
  const bool known = style.past != nullptr && style.past->knows(display.display_id);
  std::vector<std::string> meant;
  if (known) meant = style.past->meant(display.display_id, group.ranks);
  if (!known) meant.push_back(shown_id(display.display_id, group.ranks, all));
  for (const std::string& id : meant) {
    event.display_id = id;
    out.push_back(event);
  }
  if (!meant.empty()) return;
  // What is shown there is other ranks' as well: it stays, and this is a display of its own.
  add_heading(group.ranks, ", display " + display.display_id, out);
  event.display = SK_DISPLAY_DATA;
  event.display_id = display.display_id + "@" + event.ranks;
  out.push_back(std::move(event));
}

}  // namespace

const Mime* find_mime(const std::vector<Mime>& mimes, std::string_view type) {
  for (const Mime& mime : mimes)
    if (mime.type == type) return &mime;
  return nullptr;
}

RankSet merge_sets(const RankSet& a, const RankSet& b) {
  if (a == b) return a;
  RankSet out;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
  return out;
}

Event display_event(uint32_t kind, std::vector<Mime> mimes, const RankSet& ranks, bool all) {
  Event event;
  event.kind = SK_EVENT_DISPLAY;
  event.display = kind;
  event.mimes = std::move(mimes);
  event.ranks = format_ranks(ranks);
  event.all_ranks = all;
  return event;
}

bool TagColumns::widen(const TagColumns& other) {
  bool wider = false;
  for (const size_t i : {0, 1}) {
    wider = wider || other.width[i] > width[i];
    width[i] = std::max(width[i], other.width[i]);
  }
  return wider;
}

TagColumns tag_columns(const std::vector<Column>& columns, const RankSet& target,
                       const ViewStyle& style) {
  std::set<RankSet> sets[2];
  for (const Column& column : columns) {
    for (const Group& group : column) {
      if (group.item->kind != Item::Kind::kLine || !is_tagged(style, group.ranks, target)) continue;
      // A single rank's is as wide as that of any other, so that it seldom changes.
      const bool single = group.ranks.size() == 1;
      sets[index_of(group.item->stream)].insert(single ? RankSet{target.back()} : group.ranks);
    }
  }
  TagColumns tags;
  for (const size_t i : {0, 1})
    tags.width[i] = column_of_tags(style, {sets[i].begin(), sets[i].end()});
  return tags;
}

std::vector<Column> reading_order(std::vector<Column> columns, const RankSet& target,
                                  const ViewStyle& style) {
  if (style.tag == SK_TAG_SPEC) return columns;  // Arranged so already.
  return in_blocks(columns, target);
}

std::vector<Event> render_columns(const std::vector<Column>& columns, const RankSet& target,
                                  const ViewStyle& style, const TagColumns& tags) {
  std::vector<Event> out;
  TagColumns own = tag_columns(columns, target, style);
  own.widen(tags);
  StreamWriter writer(out, target, style, own);
  for (const Column& column : columns) {
    const bool sheet = is_sheet(column);
    if (sheet) {
      writer.flush();
      out.push_back(contact_sheet(column, target, style));
    }
    for (const Group& group : column) {
      if (group.item->kind == Item::Kind::kLine) {
        writer.line(group);
      } else if (group.item->is_display() && !(sheet && group.item->kind == Item::Kind::kDisplay)) {
        writer.flush();
        const bool is_update = group.item->kind == Item::Kind::kUpdate;
        (is_update ? render_update : render_display)(group, target, style, out);
      }
    }
  }
  writer.flush();
  return out;
}

}  // namespace sk::control
