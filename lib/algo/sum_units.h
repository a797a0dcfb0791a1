// Sums from host to host (sum_along_hosts.cpp): what is summed at one go, by whom, and who gets the
// result from whom.
#ifndef SK_LIB_ALGO_SUM_UNITS_H_
#define SK_LIB_ALGO_SUM_UNITS_H_

#include <functional>
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

  // What is summed at one go, in elements: from `in` on of what each rank has, to `out` of results.
  struct Piece {
    uint64_t in, out, count;
  };

  // Of vectors: of an all-reduce or a reduce-scatter.
  SumUnits(const Layout& layout, const Hosts& hosts, uint64_t sum_bytes);
  // Of an all-reduce of elements of so many bytes, cut into these.
  SumUnits(const Hosts& hosts, const std::vector<Piece>& pieces, uint64_t element_bytes);
  // In so many columns such an all-reduce of `elements` goes.
  static uint32_t columns_of(const Hosts& hosts, uint64_t elements, uint64_t element_bytes);

  // In each column one rank of each host carries.
  uint32_t columns() const { return columns_; }
  uint32_t carrier(uint32_t host, uint32_t column) const { return hosts_.on(host)[column]; }
  bool carries(uint32_t rank) const { return hosts_.place(rank) < columns_; }
  const std::vector<Unit>& of(uint32_t column) const { return units_[column]; }
  uint64_t elements_max() const { return elements_max_; }  // Of one unit.

  // Where a rank gets the results of a unit from; itself where it has summed them, or where it gets
  // none.
  uint32_t giver(uint32_t column, const Unit& unit, uint32_t rank) const;
  // From who has summed them.
  uint64_t hops(uint32_t column, const Unit& unit, uint32_t rank) const;
  bool wants(const Unit& unit, uint32_t rank) const { return !scatters_ || rank == unit.strand; }

 private:
  using Cut = std::function<std::vector<Piece>(uint32_t strand)>;  // Of an all-reduce.
  void add_trees(const Cut& pieces_of);
  std::vector<Unit> of_blocks(uint32_t column, uint64_t count, const Chunks& chunks) const;
  std::vector<Unit> of_trees(uint32_t column, const Cut& pieces_of) const;

  Hosts hosts_;
  bool scatters_ = false;
  uint32_t columns_ = 1;
  uint64_t elements_max_ = 0;
  std::vector<HostTree> trees_;
  std::vector<std::vector<Unit>> units_;
};

}  // namespace sk::algo

#endif  // SK_LIB_ALGO_SUM_UNITS_H_
