// From aligned items and results to the events that a front end shows.
//
// What all ranks of the cell share is shown as it is; all else carries its rank set. Text is never
// altered to make it equal.
#ifndef SK_LIB_CONTROL_MERGE_RENDER_H_
#define SK_LIB_CONTROL_MERGE_RENDER_H_

#include <string>
#include <vector>

#include "lib/control/merge/align.h"
#include "lib/control/merge/style.h"

namespace sk::control {

// Streams and displays, in order. Neighbouring lines of one stream are one event; where the two
// streams take turns more than kTurnsMax times, each is gathered up to the next display.
inline constexpr size_t kTurnsMax = 200;

// How wide the column of tags is in stdout and in stderr; 0 where no line has a tag. Lines without
// one begin where the text of the others does.
struct TagColumns {
  size_t width[2] = {0, 0};
  // True where it becomes wider.
  bool widen(const TagColumns& other);
};
TagColumns tag_columns(const std::vector<Column>& columns, const RankSet& target,
                       const ViewStyle& style);

// Each rank's lines together where ranks differ, as the style has it.
std::vector<Column> reading_order(std::vector<Column> columns, const RankSet& target,
                                  const ViewStyle& style);

// Place by place, in columns of tags as wide as `tags` at least.
std::vector<Event> render_columns(const std::vector<Column>& columns, const RankSet& target,
                                  const ViewStyle& style, const TagColumns& tags = {});

struct RankResult {
  uint32_t rank = 0;
  const DisplayRecord* result = nullptr;
};
// One event for all: the common bundle, or a table of what each rank has. `results` is not empty.
Event render_result(const std::vector<RankResult>& results, const RankSet& target,
                    const ViewStyle& style);
// What such a table cannot hold (pictures, widgets), as displays that follow it: under the names of
// their ranks, or one sheet. Nothing where the result is one for all.
std::vector<Event> render_native_results(const std::vector<RankResult>& results,
                                         const RankSet& target, const ViewStyle& style);

// Whether these displays are all there is to see: each rank's result is one of them, and a table
// would add nothing but their `repr`.
bool shows_itself(const std::vector<RankResult>& results, const RankSet& target);

// More groups of pictures than this at one place become one sheet.
inline constexpr size_t kPicturesMax = 6;
bool is_sheet(const Column& column);
Event contact_sheet(const Column& column, const RankSet& target, const ViewStyle& style);

// A display event of `ranks`, `all` of the target or not.
Event display_event(uint32_t kind, std::vector<Mime> mimes, const RankSet& ranks, bool all);

const Mime* find_mime(const std::vector<Mime>& mimes, std::string_view type);
RankSet merge_sets(const RankSet& a, const RankSet& b);

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_MERGE_RENDER_H_
