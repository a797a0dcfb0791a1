// What is measured; each part prints its lines and throws a sentence when it cannot go on.
#ifndef SK_BENCH_GPU_PARTS_H_
#define SK_BENCH_GPU_PARTS_H_

#include <string>
#include <vector>

#include "bench/gpu/matrices.h"

namespace sk::cuda {

// Which cases of a part: one by its name, or all of them.
class Wanted {
 public:
  explicit Wanted(std::string name = "") : name_(std::move(name)) {}
  // Whether this case is to be done; remembers that there is one.
  bool operator()(const std::string& name) const;
  // Throws what there is where the name was no case's.
  void check() const;

 private:
  const std::string name_;
  mutable std::vector<std::string> seen_;
};

// A shape for silicon and the one that a fake GPU takes in its place.
struct ShapeCase {
  Shape real, fake;

  const Shape& on(const Machine& machine) const { return machine.is_real() ? real : fake; }
};

// Compared with the CPU, no times: the kernel without a plan, by single blocks and by pairs of
// them.
void check_bare(const Machine& machine, const Wanted& wanted);
void check_bare_pairs(const Machine& machine, const Wanted& wanted);

// Without a plan, beside cuBLASLt: what little can go wrong, and the figure that all else is
// judged by.
void measure_versus(const Machine& machine, const Wanted& wanted);
void measure_versus_pairs(const Machine& machine, const Wanted& wanted);
// Bands of more and more rows of tiles.
void measure_order(const Machine& machine, const Wanted& wanted);

void measure_gemm(const Machine& machine, const Wanted& wanted);   // With a plan, too.
void measure_raw(const Machine& machine, const Wanted& wanted);    // Of a B that nobody packs.
void measure_pairs(const Machine& machine, const Wanted& wanted);  // Beside single blocks.
void measure_fused(const Machine& machine, const Wanted& wanted);  // sk_allreduce_gemm, its halves.
void measure_collectives(const Machine& machine, const Wanted& wanted);  // Beside copies.
void measure_latency(const Machine& machine, const Wanted& wanted);      // A launch; an abort.
// Where each role's warps lose their time, and how soon the first tile is begun: by kernels whose
// waits are watched.
void measure_stalls(const Machine& machine, const Wanted& wanted);

}  // namespace sk::cuda

#endif  // SK_BENCH_GPU_PARTS_H_
