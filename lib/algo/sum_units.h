// Sums from host to host (sum_along_hosts.cpp): what is summed at one go, by whom, and who gets the
// result from whom.
#ifndef SK_LIB_ALGO_SUM_UNITS_H_
#define SK_LIB_ALGO_SUM_UNITS_H_

#include <optional>
#include <vector>

#include "lib/algo/chunks.h"
#include "lib/algo/hosts.h"

namespace sk::algo {

// From one rank to the next in the units' times: a step of slack between a put and who takes it.
inline constexpr uint32_t kHopTimes = 2;

class SumUnits {
 public:
  struct Unit {
    uint32_t strand;  // Whose block it is of, where results are scattered; else the tree's number.
    uint64_t in, out, count;  // Elements.
    uint64_t time;            // At least one more than that of the unit before.
  };

  SumUnits(const Layout& layout, const Hosts& hosts, uint64_t sum_bytes);

  // In each column one rank of each host carries.
  uint32_t columns() const { return columns_; }
  uint32_t carrier(uint32_t host, uint32_t column) const { return hosts_.on(host)[column]; }
  bool carries(uint32_t rank) const { return hosts_.place(rank) < columns_; }
  const std::vector<Unit>& of(uint32_t column) const { return units_[column]; }
  uint64_t elements_max() const { return chunks_->elements(); }  // Of one unit.

  // Where a rank gets the results of a unit from; itself where it has summed them, or where it gets
  // none.
  uint32_t giver(uint32_t column, const Unit& unit, uint32_t rank) const;
  // From who has summed them.
  uint64_t hops(uint32_t column, const Unit& unit, uint32_t rank) const;
  bool wants(const Unit& unit, uint32_t rank) const { return !scatters_ || rank == unit.strand; }

 private:
  Slice slice(uint32_t strand) const;  // Of an all-reduce.
  std::vector<Unit> of_blocks(uint32_t column) const;
  std::vector<Unit> of_trees(uint32_t column) const;

  Hosts hosts_;
  bool scatters_;
  uint64_t count_, unit_;
  uint32_t columns_ = 1, strands_ = 1;
  std::vector<HostTree> trees_;
  std::optional<Chunks> chunks_;
  std::vector<std::vector<Unit>> units_;
};

}  // namespace sk::algo

#endif  // SK_LIB_ALGO_SUM_UNITS_H_
