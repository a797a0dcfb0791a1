// What a reader of a cell sees: the canonical view of the ranks' logs, and how to get from one view
// to another.
#ifndef SK_LIB_CONTROL_MERGE_VIEW_H_
#define SK_LIB_CONTROL_MERGE_VIEW_H_

#include <map>
#include <optional>
#include <vector>

#include "lib/control/merge/rank_log.h"
#include "lib/control/merge/render.h"

namespace sk::control {

using RankLogs = std::map<uint32_t, RankLog>;

// The items of several ranks in the order in which the style shows them.
std::vector<Column> arrange(const std::vector<RankItems>& ranks, const ViewStyle& style);

// Whether something was left out at this place.
bool has_elided(const Column& column);

// What the items of a place come to in a view.
Weight weight_of(const Column& column);

// The view of finished or growing logs, which are settled: a function of what they hold. `tags`, if
// wanted, gets its columns of tags.
std::vector<Event> canonical_view(const RankLogs& logs, const RankSet& target,
                                  const ViewStyle& style, bool with_bars = true,
                                  TagColumns* tags = nullptr);

// What a reader who sees `shown` sees after `event`: joined to the last one if both are text of one
// stream; an update replaces the display that it names.
void append_event(std::vector<Event>& shown, Event event);

// What makes a reader who sees `shown` see `wanted`, by appending and by updates of displays;
// nothing if that is impossible. With `may_return` the last line may be written over with \r, as
// a terminal does; `*returned` says that it was.
std::optional<std::vector<Event>> difference(const std::vector<Event>& shown,
                                             const std::vector<Event>& wanted,
                                             bool may_return = false, bool* returned = nullptr);

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_MERGE_VIEW_H_
