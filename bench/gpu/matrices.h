// Matrices of bf16 in the GPU's memory: A [m, k] by rows, B as n rows of k (a packed B, or one that
// is [n, k]) or as k rows of n, C [m, n].
#ifndef SK_BENCH_GPU_MATRICES_H_
#define SK_BENCH_GPU_MATRICES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/gpu/machine.h"

namespace sk::cuda {

struct Shape {
  int64_t m, n, k;

  std::string name() const;
  uint64_t a_pitch() const { return uint64_t(k) * 2; }
  uint64_t b_pitch() const { return (uint64_t(k) * 2 + 15) / 16 * 16; }  // As packed_pitch() says.
  uint64_t kn_pitch() const { return (uint64_t(n) * 2 + 15) / 16 * 16; }
  uint64_t a_bytes() const { return uint64_t(m) * a_pitch(); }
  uint64_t b_bytes() const { return uint64_t(n) * b_pitch(); }
  uint64_t kn_bytes() const { return uint64_t(k) * kn_pitch(); }
  uint64_t c_bytes() const { return uint64_t(m * n) * 2; }
};

// How a product gets its B.
enum class OfB {
  kPacked,
  kNK,  // As it lies, [n, k]
  kKN,  // or [k, n].
};

enum class Fill {
  kRandom,  // Of all mantissas, -1 to 1: for times, which depend on what is multiplied.
  kWhole,   // Whole numbers from -2 to 2: every sum is exact, so results can be compared.
};

class Matrix {
 public:
  Matrix(const Machine& machine, uint64_t bytes);

  void* data() const { return pointer<void>(memory_.address()); }
  uint64_t address() const { return memory_.address(); }
  void fill(Fill fill, uint64_t seed);
  void poison();
  std::vector<uint16_t> read() const;
  void write(const std::vector<uint16_t>& values);

 private:
  const Machine& machine_;
  uint64_t bytes_;
  DeviceMemory memory_;
};

// The k rows of a B that is given as n.
std::vector<uint16_t> turned_b(const Shape& shape, const std::vector<uint16_t>& b);

// C = A B of small products compared element by element, of large ones at some hundred places.
struct ProductVerdict {
  std::string wrong;      // "", or a sentence: how many differ, where they lie, the first of them.
  uint64_t compared = 0;  // Elements.
};
ProductVerdict judge_product(const Shape& shape, const std::vector<uint16_t>& a,
                             const std::vector<uint16_t>& b, const std::vector<uint16_t>& c);

// "" or a sentence: `c` against the sums of `a[r] b[r]` over all r, at some hundred places.
std::string compare_product(const Shape& shape, const std::vector<std::vector<uint16_t>>& a,
                            const std::vector<std::vector<uint16_t>>& b,
                            const std::vector<uint16_t>& c);

}  // namespace sk::cuda

#endif  // SK_BENCH_GPU_MATRICES_H_
