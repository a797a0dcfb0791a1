#include "lib/control/merge/render.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/control/text.h"

namespace sk::control {
namespace {

constexpr size_t kErrorGroupsMax = 8;  // Shown with their tracebacks; the others are counted.

std::string tag(const RankSet& ranks) { return "[" + format_ranks(ranks) + "] "; }

const Mime* find_mime(const std::vector<Mime>& mimes, std::string_view type) {
  for (const Mime& mime : mimes)
    if (mime.type == type) return &mime;
  return nullptr;
}

RankSet merge_sets(const RankSet& a, const RankSet& b) {
  RankSet out;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
  return out;
}

// Gathers neighbouring lines of one stream into one event.
class StreamWriter {
 public:
  StreamWriter(std::vector<Event>& out, const RankSet& target) : out_(out), target_(target) {}

  void line(const Group& group) {
    const bool tagged = group.ranks != target_;
    if (text_.empty() || stream_ != group.item->stream) flush();
    stream_ = group.item->stream;
    if (!text_.empty() && text_.back() != '\n') text_ += '\n';
    std::string text = group.item->text;
    text.resize(text.size() - utf8_open_tail(text));
    if (tagged) text_ += tag(group.ranks);
    text_ += utf8_clean(text);
    if (tagged && text_.back() != '\n') text_ += '\n';
    ranks_ = merge_sets(ranks_, group.ranks);
    all_ = all_ && !tagged;
  }

  void flush() {
    if (!text_.empty()) {
      Event event;
      event.kind = SK_EVENT_STREAM;
      event.stream = stream_;
      event.text = std::move(text_);
      event.ranks = format_ranks(ranks_);
      event.all_ranks = all_;
      out_.push_back(std::move(event));
    }
    text_.clear();
    ranks_.clear();
    all_ = true;
  }

 private:
  std::vector<Event>& out_;
  const RankSet& target_;
  uint32_t stream_ = 0;
  std::string text_;
  RankSet ranks_;
  bool all_ = true;
};

Event display_event(uint32_t kind, std::vector<Mime> mimes, const RankSet& ranks, bool all) {
  Event event;
  event.kind = SK_EVENT_DISPLAY;
  event.display = kind;
  event.mimes = std::move(mimes);
  event.ranks = format_ranks(ranks);
  event.all_ranks = all;
  return event;
}

void render_display(const Group& group, const RankSet& target, std::vector<Event>& out) {
  const bool all = group.ranks == target;
  const bool update = group.item->kind == Item::Kind::kUpdate;
  if (!all && !update) {
    const std::string heading = name_ranks(group.ranks);
    out.push_back(display_event(SK_DISPLAY_DATA,
                                {{"text/plain", heading}, {"text/html", "<b>" + heading + "</b>"}},
                                group.ranks, false));
  }
  Event event = display_event(update ? SK_DISPLAY_UPDATE : SK_DISPLAY_DATA, group.item->mimes,
                              group.ranks, all);
  event.display_id = group.item->display_id;
  event.metadata = group.item->metadata;
  // Two ranks' displays may carry the same id; an update of one must not change the other.
  if (!all && !event.display_id.empty()) event.display_id += "@" + event.ranks;
  out.push_back(std::move(event));
}

std::string plain_text(const DisplayRecord& result) {
  const Mime* plain = find_mime(result.mimes, "text/plain");
  return plain != nullptr ? plain->data : "<no text>";
}

std::string html_text(const DisplayRecord& result) {
  const Mime* html = find_mime(result.mimes, "text/html");
  if (html != nullptr) return html->data;
  // Themes give text its own ground and margins, which would cut holes into a table's stripes.
  return "<pre style=\"margin:0;background:none\">" + html_escape(strip_ansi(plain_text(result))) +
         "</pre>";
}

// The tag before the first line, the other lines below its text.
std::string tagged_block(const std::string& head, const std::string& text) {
  std::string out = head;
  for (char c : text) {
    out += c;
    if (c == '\n') out.append(head.size(), ' ');
  }
  return out;
}

// Failures with the same name, value and frames.
struct FailureGroup {
  const ErrorRecord* error;
  int64_t time_ns;
  RankSet ranks;
};

// Interrupts that only followed from a peer's death are one thing, wherever each rank stood.
bool same_failure(const ErrorRecord& a, const ErrorRecord& b) {
  constexpr uint32_t kFollowed = SK_ERROR_CONSEQUENCE | SK_ERROR_INTERRUPT;
  return a == b || ((a.flags & b.flags & kFollowed) == kFollowed && a.ename == b.ename);
}

std::vector<FailureGroup> group_failures(const std::vector<RankFailure>& failures) {
  std::vector<FailureGroup> groups;
  for (const RankFailure& failure : failures) {
    auto same = std::find_if(groups.begin(), groups.end(), [&](const FailureGroup& group) {
      return same_failure(*group.error, failure.error.error);
    });
    if (same == groups.end()) {
      groups.push_back({&failure.error.error, failure.error.time_ns, {failure.rank}});
      continue;
    }
    same->time_ns = std::min(same->time_ns, failure.error.time_ns);
    same->ranks.push_back(failure.rank);
  }
  for (FailureGroup& group : groups) std::sort(group.ranks.begin(), group.ranks.end());
  // The root cause is told by time; what only followed from a peer's failure comes after.
  std::sort(groups.begin(), groups.end(), [](const FailureGroup& a, const FailureGroup& b) {
    const bool a_follows = (a.error->flags & SK_ERROR_CONSEQUENCE) != 0;
    const bool b_follows = (b.error->flags & SK_ERROR_CONSEQUENCE) != 0;
    if (a_follows != b_follows) return b_follows;
    if (a.time_ns != b.time_ns) return a.time_ns < b.time_ns;
    return a.ranks < b.ranks;
  });
  return groups;
}

bool same_content(const Event& a, const Event& b) {
  return a.kind == b.kind && a.stream == b.stream && a.display == b.display && a.text == b.text &&
         a.mimes == b.mimes && a.display_id == b.display_id && a.ename == b.ename &&
         a.evalue == b.evalue && a.traceback == b.traceback && a.metadata == b.metadata;
}

}  // namespace

std::vector<Event> render_columns(const std::vector<Column>& columns, const RankSet& target) {
  std::vector<Event> out;
  StreamWriter writer(out, target);
  for (const Column& column : columns) {
    for (const Group& group : column) {
      if (group.item->kind == Item::Kind::kLine) {
        writer.line(group);
        continue;
      }
      writer.flush();
      render_display(group, target, out);
    }
  }
  writer.flush();
  return out;
}

Event render_result(const std::vector<RankResult>& results, const RankSet& target) {
  std::vector<std::pair<const DisplayRecord*, RankSet>> groups;
  RankSet everyone;
  for (const RankResult& result : results) {
    everyone.push_back(result.rank);
    auto same = std::find_if(groups.begin(), groups.end(),
                             [&](const auto& group) { return *group.first == *result.result; });
    if (same == groups.end())
      groups.push_back({result.result, {result.rank}});
    else
      same->second.push_back(result.rank);
  }
  if (groups.size() == 1 && groups[0].second == target) {
    Event event = display_event(SK_DISPLAY_RESULT, groups[0].first->mimes, target, true);
    event.display_id = groups[0].first->display_id;
    event.metadata = groups[0].first->metadata;
    return event;
  }
  std::string plain;
  std::string html =
      "<table><thead><tr><th>ranks</th><th "
      "style=\"text-align:left\">value</th></tr></thead><tbody>";
  for (const auto& [result, ranks] : groups) {
    if (!plain.empty()) plain += '\n';
    plain += tagged_block(tag(ranks), plain_text(*result));
    html += "<tr><th>" + format_ranks(ranks) + "</th><td style=\"text-align:left\">" +
            html_text(*result) + "</td></tr>";
  }
  html += "</tbody></table>";
  return display_event(SK_DISPLAY_RESULT, {{"text/plain", plain}, {"text/html", html}}, everyone,
                       false);
}

Event render_errors(const std::vector<RankFailure>& failures, const RankSet& target) {
  const std::vector<FailureGroup> groups = group_failures(failures);
  Event event;
  event.kind = SK_EVENT_ERROR;
  RankSet everyone;
  for (const FailureGroup& group : groups) everyone = merge_sets(everyone, group.ranks);
  event.ranks = format_ranks(everyone);
  event.all_ranks = groups.size() == 1 && groups[0].ranks == target;
  event.ename = groups[0].error->ename;
  for (const FailureGroup& group : groups) {  // What only followed does not change the name.
    const bool follows = (group.error->flags & SK_ERROR_CONSEQUENCE) != 0;
    if (!follows && group.error->ename != event.ename) event.ename = "MultiRankError";
  }
  if (groups.size() == 1) {
    event.evalue = groups[0].error->evalue;
    event.traceback = groups[0].error->traceback;
    if (target.size() == 1) return event;
    const std::string where = "[" + name_ranks(groups[0].ranks) + "]";
    event.evalue += event.evalue.empty() ? where : " " + where;
    event.traceback.push_back(where);
    return event;
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    const FailureGroup& group = groups[i];
    if (i == kErrorGroupsMax) {
      RankSet others;
      for (size_t j = i; j < groups.size(); ++j) others = merge_sets(others, groups[j].ranks);
      const std::string more =
          fmt::format("{} more errors, on {}", groups.size() - i, name_ranks(others));
      event.evalue += "; " + more;
      event.traceback.push_back("… " + more);
      break;
    }
    const std::string value = group.error->evalue.empty()
                                  ? group.error->ename
                                  : group.error->ename + ": " + group.error->evalue;
    event.evalue += fmt::format("{}{} [{}]", i == 0 ? "" : "; ", value, name_ranks(group.ranks));
    const bool follows = (group.error->flags & SK_ERROR_CONSEQUENCE) != 0;
    const char* role = i == 0 ? "first, " : follows ? "as a consequence, " : "";
    event.traceback.push_back(fmt::format(
        "──── {} ({}t+{:.3f} s) ────", name_ranks(group.ranks), role,
        static_cast<double>(std::max<int64_t>(0, group.time_ns - groups[0].time_ns)) / 1e9));
    const auto& lines = group.error->traceback;
    if (follows && (group.error->flags & SK_ERROR_INTERRUPT) != 0)
      event.traceback.push_back("interrupted");
    else
      event.traceback.insert(event.traceback.end(), lines.begin(), lines.end());
  }
  return event;
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
                                             const std::vector<Event>& wanted) {
  size_t same = 0;
  while (same < shown.size() && same < wanted.size() && same_content(shown[same], wanted[same]))
    ++same;
  std::vector<Event> rest;
  if (same + 1 == shown.size() && same < wanted.size()) {
    const Event& old = shown[same];
    const Event& next = wanted[same];
    const bool grows = old.kind == SK_EVENT_STREAM && next.kind == SK_EVENT_STREAM &&
                       old.stream == next.stream && next.text.starts_with(old.text);
    if (!grows) return std::nullopt;
    rest.push_back(next);
    rest.back().text.erase(0, old.text.size());
    ++same;
  } else if (same < shown.size()) {
    return std::nullopt;
  }
  rest.insert(rest.end(), wanted.begin() + static_cast<std::ptrdiff_t>(same), wanted.end());
  return rest;
}

}  // namespace sk::control
