#include "lib/control/merge/align.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

namespace sk::control {
namespace {

// Matches of one item that are looked at. More only occur where a line repeats thousands of times
// (blank lines), and there the nearest ones serve as well; it bounds the time to n log n.
constexpr size_t kMatchesMax = 16;

// Equal items get equal numbers.
class Interner {
 public:
  uint32_t id(const Item& item) {
    std::vector<uint32_t>& candidates = by_hash_[hash(item)];
    for (uint32_t id : candidates)
      if (items_[id]->same_content(item)) return id;
    candidates.push_back(static_cast<uint32_t>(items_.size()));
    items_.push_back(&item);
    return candidates.back();
  }
  const Item* item(uint32_t id) const { return items_[id]; }
  size_t count() const { return items_.size(); }

 private:
  static size_t hash(const Item& item) {
    const std::hash<std::string_view> of;
    size_t h = of(item.text) * 31 + item.stream + static_cast<size_t>(item.kind) * 7 + item.lines;
    if (item.display == nullptr) return h;
    h += of(item.display->display_id) * 17;
    for (const Mime& mime : item.display->mimes) h = h * 1'000'003 + of(mime.data) + of(mime.type);
    return h;
  }
  std::unordered_map<size_t, std::vector<uint32_t>> by_hash_;
  std::vector<const Item*> items_;
};

struct Cell {
  uint32_t id;
  RankSet ranks;
};
using Place = std::vector<Cell>;          // A column, in numbers.
using Match = std::pair<size_t, size_t>;  // Index in the list, index of the place.

bool holds(const Place& place, uint32_t id) {
  return std::any_of(place.begin(), place.end(), [&](const Cell& cell) { return cell.id == id; });
}

void join(Place& place, uint32_t id, const RankSet& ranks) {
  for (Cell& cell : place) {
    if (cell.id != id) continue;
    cell.ranks.insert(cell.ranks.end(), ranks.begin(), ranks.end());
    std::sort(cell.ranks.begin(), cell.ranks.end());
    return;
  }
  place.push_back({id, ranks});
}

// The longest chain of matches that rises in both indices (Hunt and Szymanski).
std::vector<Match> longest_chain(const std::vector<uint32_t>& list, size_t list_begin,
                                 size_t list_end, const std::vector<Place>& places,
                                 size_t place_begin, size_t place_end, size_t id_count) {
  // Most of what is placed is other ranks' own: told apart by a bit, before any hashing.
  std::vector<bool> wanted(id_count, false);
  for (size_t i = list_begin; i < list_end; ++i) wanted[list[i]] = true;
  std::unordered_map<uint32_t, std::vector<size_t>> where;
  for (size_t p = place_begin; p < place_end; ++p)
    for (const Cell& cell : places[p])
      if (wanted[cell.id]) where[cell.id].push_back(p);
  struct Link {
    Match match;
    ptrdiff_t before;
  };
  std::vector<Link> links;
  std::vector<size_t> tails;  // tails[k]: the link that ends the best chain of length k + 1.
  for (size_t i = list_begin; i < list_end; ++i) {
    const auto found = where.find(list[i]);
    if (found == where.end()) continue;
    const std::vector<size_t>& at = found->second;
    const size_t near = static_cast<size_t>(
        std::lower_bound(at.begin(), at.end(), place_begin + (i - list_begin)) - at.begin());
    const size_t low = near > kMatchesMax / 2 ? near - kMatchesMax / 2 : 0;
    const size_t high = std::min(at.size(), low + kMatchesMax);
    for (size_t m = high; m-- > low;) {  // Descending: one item matches one place at most.
      const auto tail = std::lower_bound(
          tails.begin(), tails.end(), at[m],
          [&](size_t link, size_t place) { return links[link].match.second < place; });
      links.push_back({{i, at[m]}, tail == tails.begin() ? -1 : ptrdiff_t(*(tail - 1))});
      if (tail == tails.end())
        tails.push_back(links.size() - 1);
      else
        *tail = links.size() - 1;
    }
  }
  std::vector<Match> chain;
  for (ptrdiff_t l = tails.empty() ? -1 : ptrdiff_t(tails.back()); l >= 0;
       l = links[size_t(l)].before)
    chain.push_back(links[size_t(l)].match);
  std::reverse(chain.begin(), chain.end());
  return chain;
}

// Places `list` of `ranks` beside what is there.
std::vector<Place> add_list(std::vector<Place> places, const std::vector<uint32_t>& list,
                            const RankSet& ranks, size_t id_count) {
  size_t begin = 0;
  while (begin < list.size() && begin < places.size() && holds(places[begin], list[begin])) ++begin;
  size_t list_end = list.size(), place_end = places.size();
  while (list_end > begin && place_end > begin && holds(places[place_end - 1], list[list_end - 1]))
    --list_end, --place_end;
  std::vector<Match> chain =
      longest_chain(list, begin, list_end, places, begin, place_end, id_count);
  chain.push_back({list_end, place_end});  // A sentinel closes the last gap.
  std::vector<Place> out;
  out.reserve(places.size() + list.size() / 2);
  for (size_t i = 0; i < begin; ++i) {
    join(places[i], list[i], ranks);
    out.push_back(std::move(places[i]));
  }
  size_t i = begin, p = begin;
  for (const auto& [match_i, match_p] : chain) {
    while (i < match_i || p < match_p) {  // A gap: side by side, then whichever is longer.
      Place place;
      if (p < match_p) place = std::move(places[p++]);
      if (i < match_i) join(place, list[i++], ranks);
      out.push_back(std::move(place));
    }
    if (match_i == list_end) break;
    join(places[p], list[i++], ranks);
    out.push_back(std::move(places[p++]));
  }
  for (; i < list.size(); ++i, ++p) {
    join(places[p], list[i], ranks);
    out.push_back(std::move(places[p]));
  }
  return out;
}

}  // namespace

std::vector<Column> align(const std::vector<RankItems>& ranks) {
  Interner interner;
  std::map<std::vector<uint32_t>, RankSet> by_list;
  for (const RankItems& rank : ranks) {
    std::vector<uint32_t> list;
    list.reserve(rank.items.size());
    for (const Item* item : rank.items) list.push_back(interner.id(*item));
    by_list[std::move(list)].push_back(rank.rank);
  }
  std::vector<std::pair<RankSet, const std::vector<uint32_t>*>> classes;
  for (const auto& [list, members] : by_list) classes.push_back({members, &list});
  std::sort(classes.begin(), classes.end());  // By lowest rank: sets are disjoint.
  std::vector<Place> places;
  for (const auto& [members, list] : classes)
    places = add_list(std::move(places), *list, members, interner.count());
  std::vector<Column> columns;
  columns.reserve(places.size());
  for (Place& place : places) {
    std::sort(place.begin(), place.end(),
              [](const Cell& a, const Cell& b) { return a.ranks.front() < b.ranks.front(); });
    Column column;
    for (Cell& cell : place) column.push_back({interner.item(cell.id), std::move(cell.ranks)});
    columns.push_back(std::move(column));
  }
  return columns;
}

}  // namespace sk::control
