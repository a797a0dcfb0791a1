// The logs of the newest cells: what every rank printed and displayed, as far as it is kept.
//
// Bounded in cells and in bytes; the oldest cells go first. Text beyond a chunk lies in Chunks.
#ifndef SK_LIB_CONTROL_LOG_CELL_LOGS_H_
#define SK_LIB_CONTROL_LOG_CELL_LOGS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/control/log/text_log.h"
#include "lib/control/message.h"
#include "lib/control/rank_set.h"

namespace sk::control {

struct LogLimits {
  size_t cells = 256;
  uint64_t memory_bytes = 64ull << 20;  // Of open chunks and displays.
  uint64_t merged_bytes = 16ull << 20;  // Of the text of several ranks that is merged at once,
  uint64_t merged_lines = 1'000'000;    // and of its lines.
};

class CellLogs {
 public:
  CellLogs(Chunks& chunks, LogLimits limits) : room_(*this, chunks), limits_(limits) {}

  // From now on `cell`, which is newer than all before, is kept: `kept_bytes` of each rank's text.
  void start(uint64_t cell, int64_t execution_count, RankSet ranks, uint64_t kept_bytes);
  void add(uint64_t cell, uint32_t rank, const Record& record);

  // The number of a kept cell in its notebook; 0: it has none.
  int64_t execution_count(uint64_t cell) const;

  // The piece that is asked for, or status and sentence.
  Reply answer(const LogRequest& request);

 private:
  struct RankPart {
    RankPart(Chunks& chunks, uint64_t kept_bytes) : text(chunks, kept_bytes) {}
    TextLog text;
    std::string pending[2];  // Of each stream: bytes of a character whose end has not come.
    std::vector<DisplayRecord> displays;
    uint64_t displays_dropped = 0;
  };
  struct Cell {
    int64_t execution_count = 0;
    uint64_t kept_bytes = 0;
    RankSet ranks;
    std::map<uint32_t, std::unique_ptr<RankPart>> parts;
    uint64_t memory = 0;
  };
  // Chunks with the oldest cells as a reserve of room.
  class Room : public Chunks {
   public:
    Room(CellLogs& logs, Chunks& chunks) : logs_(logs), chunks_(chunks) {}
    Result<uint32_t> put(std::string_view bytes) override;
    Result<std::string> get(uint32_t id) const override { return chunks_.get(id); }
    void free(uint32_t id) override { chunks_.free(id); }

   private:
    CellLogs& logs_;
    Chunks& chunks_;
  };

  bool drop_oldest();
  RankPart& part_of(Cell& cell, uint32_t rank);
  void add_text(RankPart& part, const StreamRecord& stream);
  void add_display(Cell& cell, RankPart& part, const DisplayRecord& display);
  Result<std::pair<uint64_t, Cell*>> find(const LogRequest& request);
  Status read_text(const LogRequest& request, uint64_t number, Cell& cell, const RankSet& ranks,
                   Reply& reply);
  Status read_display(const LogRequest& request, Cell& cell, const RankSet& ranks, Reply& reply);
  static uint64_t number_of(const std::pair<uint64_t, Cell*>& cell);
  static std::string no_display(uint64_t asked, uint32_t rank, const RankPart& part);
  Result<std::string> merge(const Cell& cell, const RankSet& ranks) const;

  Room room_;  // Before cells_, whose logs free their chunks in it.
  const LogLimits limits_;
  std::map<uint64_t, Cell> cells_;
  uint64_t memory_ = 0;
  uint64_t dropped_to_ = 0;  // Cells up to this one are gone.
  // The merged text that was asked for last: it is read in pieces.
  uint64_t merged_cell_ = 0;
  RankSet merged_ranks_;
  std::string merged_;
};

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_LOG_CELL_LOGS_H_
