// `%sk time`: what a cell took on each rank.
#ifndef SK_TOOLS_SK_KERNEL_MAGIC_TIME_H_
#define SK_TOOLS_SK_KERNEL_MAGIC_TIME_H_

#include <cstdint>
#include <vector>

#include "sk/exec.h"
#include "tools/sk_kernel/wire.h"

namespace sk::kernel {

class CellTimes {
 public:
  CellTimes() = default;
  // `cell` is the execution count; `times` those of SK_EVENT_CELL_DONE.
  CellTimes(int64_t cell, const sk_rank_time* times, uint64_t count)
      : cell_(cell), times_(times, times + count) {}

  int64_t cell() const { return cell_; }

  // {"ranks": [...], "wall_s": [...], "cpu_s": [...], "skew_s": ..., "slowest": rank}; {} for none.
  Json as_json() const;
  // A MIME bundle.
  Json as_display() const;

 private:
  size_t slowest() const;
  int64_t skew_ns() const;

  int64_t cell_ = 0;
  std::vector<sk_rank_time> times_;
};

}  // namespace sk::kernel

#endif  // SK_TOOLS_SK_KERNEL_MAGIC_TIME_H_
