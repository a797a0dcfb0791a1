// The merge engine: what the ranks of one cell put out, as one reader should see it.
//
// Pure: records and the time go in, events come out; no clock, no socket, no thread. Two phases.
// While the cell runs, what all ranks have, or what has waited kHoldNs for its peers, is shown by
// appending; progress bars and what is too much move in one display, the row. At the end the
// canonical merge of everything decides: where the live view differs from it, the view is cleared
// and shown anew, so that what stays never depends on arrival.
#ifndef SK_LIB_CONTROL_MERGE_ENGINE_H_
#define SK_LIB_CONTROL_MERGE_ENGINE_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "lib/control/merge/errors.h"
#include "lib/control/merge/view.h"

namespace sk::control {

inline constexpr int64_t kHoldNs = 100'000'000;       // Longest wait of a line for its peers.
inline constexpr int64_t kSettleNs = 10'000'000;      // A short cell is shown once, at its end.
inline constexpr int64_t kMessageGapNs = 50'000'000;  // At most 20 live messages a second.
inline constexpr int64_t kRedrawGapNs = 250'000'000;
inline constexpr int64_t kRowGapNs = 100'000'000;
inline constexpr int64_t kNoDeadline = INT64_MAX;

struct MergeOptions {
  ViewStyle style;
  uint64_t live_bytes_per_second = 500'000;
};

class MergeEngine {
 public:
  // `target`: the ranks that the cell runs on, at least one.
  MergeEngine(RankSet target, MergeOptions options);

  // The next record of `rank`, which is in the target. Ranks may come in any order.
  void add(uint32_t rank, const Record& record, int64_t now_ns);

  // `rank` is done: from now on nobody's line waits for it. What it still puts out counts.
  void end_rank(uint32_t rank);

  // `rank` died, and the cell's error tells what it last said on stderr, from the line on that
  // begins with `first`.
  void drop_stderr_from(uint32_t rank, std::string_view first, int64_t now_ns);

  // What to show now, while ranks still run. Call it at deadline_ns() or later.
  std::vector<Event> live(int64_t now_ns);
  int64_t deadline_ns() const;

  // Ends the cell: what is missing of the canonical view, results, and the error if there is one.
  // `extra`: failures that no rank could report itself (it died).
  std::vector<Event> finish(const std::vector<RankFailure>& extra, int64_t now_ns);

  bool has_error() const;

  // What a reader sees.
  const std::vector<Event>& shown() const { return shown_; }

 private:
  struct Ready {
    size_t rows = 0;                  // Items that every running rank has.
    int64_t oldest_ns = kNoDeadline;  // When the first item that was not shown came.
  };

  Ready ready() const;
  bool altered() const;
  bool row_is_stale() const;
  uint64_t item_count() const;
  uint64_t count_lines() const;
  void settle();
  void show(std::vector<Event> events, std::vector<Event>& out);
  void redraw(std::vector<Event> wanted, std::vector<Event>& out);
  bool put_in_order(std::vector<Event>& out);
  bool shows(uint32_t stream) const;
  bool may_redraw(uint64_t bytes) const;
  bool show_altered(std::vector<Event>& out);
  void append_batch(const Ready& ready, int64_t now_ns, std::vector<Event>& out);
  void show_row(std::vector<Event>& out);
  void publish_all();

  const RankSet target_;
  const MergeOptions options_;
  RankLogs logs_;
  std::set<uint32_t> ended_;
  std::vector<Event> shown_;
  Weight appended_;             // Of what was appended live.
  uint64_t payload_bytes_ = 0;  // Of all records.
  uint64_t redrawn_bytes_ = 0;
  uint64_t unsure_bytes_ = 0;  // Appended, and not yet found to be as the end would show it.
  TagColumns tags_;            // Of what is shown.
  uint32_t clears_shown_ = 0;
  bool bars_in_row_ = false;
  bool identical_ = true;   // All that was appended came from all ranks alike.
  bool full_ = false;       // Nothing is appended any more: the row shows the end.
  bool returned_ = false;   // A line was written over with \r.
  bool row_stale_ = false;  // What the row shows of a full view has changed.
  bool row_shown_ = false;
  int64_t next_live_ns_ = 0;
  int64_t next_row_ns_ = 0;
};

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_MERGE_ENGINE_H_
