// An oracle for the C ABI that shares no code with the library: every result in fp64 or 64-bit
// integers from the inputs of all ranks.
#ifndef SK_TESTS_MULTI_ORACLE_H_
#define SK_TESTS_MULTI_ORACLE_H_

#include <cstdint>
#include <random>
#include <vector>

#include "sk.h"

namespace sk::testing_ops {

struct Case {
  int32_t kind = SK_OP_ALLREDUCE;
  int32_t dtype = SK_F32, out_dtype = SK_F32, op = SK_SUM;
  int32_t root = 0;  // Of a broadcast; the sender of a pair.
  int32_t peer = 0;  // The receiver of a pair.
  int64_t count = 0, m = 0, n = 0, k = 0;
  bool symmetric = false, in_place = false, packed = false, transpose_a = false,
       transpose_b = false;
  bool any_bits = false;  // Of floating types: fill_any_bits() instead of fill().
  uint32_t seed = 0;
};

// Whether it has A, B and C.
bool multiplies(const Case& c);

size_t size_of(int32_t dtype);
double load(const void* data, int64_t index, int32_t dtype);
void store(void* data, int64_t index, int32_t dtype, double value);

// Small integers, exact in every type, and so few bits that sums and products of 16 ranks are too.
void fill(void* data, int64_t count, int32_t dtype, int32_t op, uint64_t seed);

// Floating elements of which every order of the ranks has its own sums, and, at the same indices on
// all ranks, those of any bits: NaN of any payload, infinities, subnormal numbers, zeros.
void fill_any_bits(void* data, int64_t count, int32_t dtype, uint64_t seed);

// out[i] of rank `rank`, from inputs[r] of every rank r (inputs[0] is A for the GEMM, weights B).
std::vector<double> expected(const Case& c, int rank, const std::vector<std::vector<char>>& inputs,
                             const std::vector<std::vector<char>>& weights);

int64_t in_count(const Case& c, int ranks);
int64_t out_count(const Case& c, int ranks);

// `large`: a reduction or a GEMM with so much to do that a rank's workers may share it.
Case random_case(std::mt19937_64& random, int ranks, bool large);

}  // namespace sk::testing_ops

#endif  // SK_TESTS_MULTI_ORACLE_H_
