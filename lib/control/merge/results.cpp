// Results of a cell's last expression, and pictures of many ranks at one place.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/base/base64.h"
#include "lib/base/html.h"
#include "lib/control/merge/render.h"
#include "lib/control/text.h"

namespace sk::control {
namespace {

constexpr uint64_t kSheetBytesMax = 16ull << 20;  // Of the pictures in one sheet.

// Servers of notebooks drop messages of some megabytes. The value itself is there to be looked at.
constexpr uint64_t kResultBytesMax = 512 * 1024;  // Of the text of all values together,
constexpr uint64_t kResultBytesMin = 2 * 1024;    // but so much of each.

std::string cut_to(std::string text, uint64_t bytes) {
  if (text.size() <= bytes) return text;
  const size_t whole = text.size();
  text.resize(bytes);
  text.resize(bytes - utf8_open_tail(text));
  return text + fmt::format("… {} more bytes of this value", grouped(whole - text.size()));
}

std::string plain_text(const std::vector<Mime>& mimes, uint64_t bytes_max) {
  const Mime* plain = find_mime(mimes, "text/plain");
  return plain != nullptr ? cut_to(plain->data, bytes_max) : "<no text>";
}

// A form that a cell of a table cannot hold: a picture, a widget, a formula.
bool has_native_form(const std::vector<Mime>& mimes) {
  return std::any_of(mimes.begin(), mimes.end(), [](const Mime& mime) {
    return mime.type != "text/plain" && mime.type != "text/html";
  });
}

// What is shown below the table as it is needs no second place in it.
std::string html_text(const std::vector<Mime>& mimes, uint64_t bytes_max) {
  const Mime* html = find_mime(mimes, "text/html");
  if (html != nullptr && !has_native_form(mimes)) return html->data;
  // Themes give text its own ground and margins, which would cut holes into a table's stripes.
  return "<pre style=\"margin:0;background:none\">" +
         html_escape(strip_ansi(plain_text(mimes, bytes_max))) + "</pre>";
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

const Mime* picture_of(const Group& group) {
  if (group.item->kind != Item::Kind::kDisplay) return nullptr;
  for (const Mime& mime : group.item->display->mimes)
    if (mime.type.starts_with("image/")) return &mime;
  return nullptr;
}

// Ranks with equal results, the lowest rank first.
using ResultGroups = std::vector<std::pair<const DisplayRecord*, RankSet>>;

ResultGroups group_results(const std::vector<RankResult>& results) {
  ResultGroups groups;
  for (const RankResult& result : results) {
    auto same = std::find_if(groups.begin(), groups.end(),
                             [&](const auto& group) { return *group.first == *result.result; });
    if (same == groups.end())
      groups.push_back({result.result, {result.rank}});
    else
      same->second.push_back(result.rank);
  }
  return groups;
}

}  // namespace

bool shows_itself(const std::vector<RankResult>& results, const RankSet& target) {
  const ResultGroups groups = group_results(results);
  if (groups.size() == 1 && groups[0].second == target) return false;
  return std::all_of(groups.begin(), groups.end(),
                     [](const auto& group) { return has_native_form(group.first->mimes); });
}

Event render_result(const std::vector<RankResult>& results, const RankSet& target,
                    const ViewStyle& style) {
  const ResultGroups groups = group_results(results);
  RankSet everyone;
  for (const RankResult& result : results) everyone.push_back(result.rank);
  if (groups.size() == 1 && groups[0].second == target) {
    std::vector<Mime> mimes = groups[0].first->mimes;
    for (Mime& mime : mimes)
      if (mime.type == "text/plain") mime.data = cut_to(std::move(mime.data), kResultBytesMax);
    Event event = display_event(SK_DISPLAY_RESULT, std::move(mimes), target, true);
    event.display_id = groups[0].first->display_id;
    event.metadata = groups[0].first->metadata;
    return event;
  }
  const uint64_t each = std::max(kResultBytesMin, kResultBytesMax / groups.size());
  std::string plain;
  std::string html =
      "<table><thead><tr><th>ranks</th><th "
      "style=\"text-align:left\">value</th></tr></thead><tbody>";
  std::vector<RankSet> sets = {{target.back()}};
  for (const auto& [result, ranks] : groups) sets.push_back(ranks);
  const size_t width = column_of_tags(style, sets);
  for (const auto& [result, ranks] : groups) {
    if (!plain.empty()) plain += '\n';
    plain += tagged_block(tag_of(style, ranks, width), plain_text(result->mimes, each));
    html += "<tr><th>" + brief_ranks(ranks, style.world_size) +
            "</th><td style=\"text-align:left\">" + html_text(result->mimes, each) + "</td></tr>";
  }
  html += "</tbody></table>";
  return display_event(SK_DISPLAY_RESULT, {{"text/plain", plain}, {"text/html", html}}, everyone,
                       false);
}

std::vector<Event> render_native_results(const std::vector<RankResult>& results,
                                         const RankSet& target, const ViewStyle& style) {
  const ResultGroups groups = group_results(results);
  if (groups.size() == 1 && groups[0].second == target) return {};  // The result itself is.
  std::vector<Item> items;
  items.reserve(groups.size());  // Groups of a column point to them.
  Column column;
  for (const auto& [result, ranks] : groups) {
    if (!has_native_form(result->mimes)) continue;
    Item& item = items.emplace_back();
    item.kind = Item::Kind::kDisplay;
    for (const Mime& mime : result->mimes) item.bytes += mime.data.size();
    item.display = std::shared_ptr<const DisplayRecord>(std::shared_ptr<void>(), result);  // Lent.
    column.push_back({&item, ranks});
  }
  size_t left_out = 0;
  if (!is_sheet(column)) {
    Weight weight;
    size_t kept = 0;
    for (; kept < column.size(); ++kept) {
      weight.add(*column[kept].item);
      if (!weight.within(style.limits)) break;
    }
    left_out = column.size() - kept;
    column.resize(kept);
  }
  std::vector<Event> out = render_columns({column}, target, style);
  if (left_out > 0)
    out.push_back(display_event(SK_DISPLAY_DATA, {{"text/plain", elision(style, 0, left_out)}},
                                target, true));
  return out;
}

bool is_sheet(const Column& column) {
  if (column.size() <= kPicturesMax) return false;
  const auto pictures = std::count_if(column.begin(), column.end(), [](const Group& group) {
    return picture_of(group) != nullptr;
  });
  const auto displays = std::count_if(column.begin(), column.end(), [](const Group& group) {
    return group.item->kind == Item::Kind::kDisplay;
  });
  return pictures == displays && static_cast<size_t>(pictures) > kPicturesMax;
}

// Readable without JavaScript: the first picture is open, the others open at a click.
Event contact_sheet(const Column& column, const RankSet& target, const ViewStyle& style) {
  std::string plain, html;
  RankSet everyone;
  uint64_t bytes = 0;
  for (const Group& group : column) {
    const Mime* const picture = picture_of(group);
    if (picture == nullptr) continue;
    everyone = merge_sets(everyone, group.ranks);
    const std::string name = name_ranks(group.ranks);
    const std::string size = grouped(picture->data.size()) + " bytes";
    plain += fmt::format("{}{}: {}, {}", plain.empty() ? "" : "\n", name, picture->type, size);
    bytes += picture->data.size();
    html += fmt::format("<details{}><summary>{}</summary>", html.empty() ? " open" : "", name);
    if (bytes <= kSheetBytesMax)
      html += "<img style=\"max-width:100%\" alt=\"" + name +
              "\" src=\"data:" + html_escape(picture->type) + ";base64," + base64(picture->data) +
              "\">";
    else
      html += fmt::format("{}, {}: too much for one sheet", picture->type, size);
    html += "</details>";
  }
  const bool magics = style.log.starts_with('%');
  const std::string how = magics ? fmt::format("`%sk show {}`", everyone.front()) : log_hint(style);
  const std::string hint = "one rank's own picture: " + how;
  plain += "\n" + hint;
  html += "<p>" + hint + "</p>";
  return display_event(SK_DISPLAY_DATA, {{"text/plain", plain}, {"text/html", html}}, everyone,
                       everyone == target);
}

}  // namespace sk::control
