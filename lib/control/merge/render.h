// From aligned items, results and errors to the events that a front end shows.
//
// What all ranks of the cell share is shown as it is; all else carries its rank set. Text is never
// altered to make it equal.
#ifndef SK_LIB_CONTROL_MERGE_RENDER_H_
#define SK_LIB_CONTROL_MERGE_RENDER_H_

#include <optional>
#include <vector>

#include "lib/control/merge/align.h"

namespace sk::control {

// Streams and displays, in order. Neighbouring lines of one stream are one event.
std::vector<Event> render_columns(const std::vector<Column>& columns, const RankSet& target);

struct RankResult {
  uint32_t rank = 0;
  const DisplayRecord* result = nullptr;
};
// One event for all: the common bundle, or a table of what each rank has. `results` is not empty.
Event render_result(const std::vector<RankResult>& results, const RankSet& target);

struct RankFailure {
  uint32_t rank = 0;
  RankError error;
};
// The cell's one error: equal ones grouped, the earliest first, consequences last.
Event render_errors(const std::vector<RankFailure>& failures, const RankSet& target);

// What a reader who sees `shown` sees after `event`: joined to the last one if both are text of one
// stream; an update replaces the display that it names.
void append_event(std::vector<Event>& shown, Event event);

// What makes a reader who sees `shown` see `wanted`, by appending only; nothing if that is
// impossible.
std::optional<std::vector<Event>> difference(const std::vector<Event>& shown,
                                             const std::vector<Event>& wanted);

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_MERGE_RENDER_H_
