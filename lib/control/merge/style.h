// How a cell's merged output looks.
#ifndef SK_LIB_CONTROL_MERGE_STYLE_H_
#define SK_LIB_CONTROL_MERGE_STYLE_H_

#include <string>
#include <vector>

#include "lib/control/merge/display_ids.h"
#include "lib/control/merge/item_list.h"
#include "lib/control/rank_set.h"

namespace sk::control {

struct ViewStyle {
  uint32_t tag = SK_TAG_SET;        // enum sk_tag_mode.
  std::string host;                 // Of the ranks, for SK_TAG_HOST.
  std::string log = "%sk log";      // A magic, or words: where what was left out is.
  std::string live_id = "sk-live";  // The display that shows what changes while the cell runs.
  ViewLimits limits;
  const DisplayIds* past = nullptr;  // Displays of earlier cells; outlives the style.
  uint32_t world_size = 0;           // All ranks of the session; 0: not known.
};

// Whether what `ranks` of `target` put out carries a tag.
bool is_tagged(const ViewStyle& style, const RankSet& ranks, const RankSet& target);

// "[0-3,5] ", "[rank    3] ", "[name 0-3] " or "". As wide as `width`, if it is not wider.
std::string tag_of(const ViewStyle& style, const RankSet& ranks, size_t width = 0);

// How wide the column of tags is, in characters, in which those of `ranks` stand one below the
// other; 0 where tags have no column of their own. Very long ones stand out of it.
size_t column_of_tags(const ViewStyle& style, const std::vector<RankSet>& ranks);

// Where what was left out is: "`%sk log 3`", or, where no magics are typed, "in the log of cell 3".
std::string log_hint(const ViewStyle& style);

// "… 48,210 lines and 3 displays elided, `%sk log 3`".
std::string elision(const ViewStyle& style, uint64_t lines, uint64_t displays);
// The same of a line that grows and is too long to show.
std::string growing_line(const ViewStyle& style);

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_MERGE_STYLE_H_
