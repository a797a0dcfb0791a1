#include "tests/multi/oracle.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace sk::testing_ops {
namespace {

float widen_half(uint16_t bits) {
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  const float sign = bits & 0x8000 ? -1.0f : 1.0f;
  if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
  return sign * (exponent == 0 ? std::ldexp(float(mantissa), -24)
                               : std::ldexp(float(1024 + mantissa), exponent - 25));
}

// Only for values that f16 holds exactly.
uint16_t narrow_half(double value) {
  for (uint32_t bits = 0; value != 0 && bits < 0x7c00; ++bits) {
    if (widen_half(uint16_t(bits)) == std::fabs(value)) {
      return uint16_t(bits | (value < 0 ? 0x8000 : 0));
    }
  }
  return 0;
}

template <typename T>
T get(const void* data, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * int64_t(sizeof(T)), sizeof(T));
  return value;
}
template <typename T>
void put(void* data, int64_t index, T value) {
  std::memcpy(static_cast<char*>(data) + index * int64_t(sizeof(T)), &value, sizeof(T));
}

double reduce(int32_t op, const std::vector<double>& values) {
  double result = values[0];
  for (size_t i = 1; i < values.size(); ++i) {
    switch (op) {
      case SK_SUM:
      case SK_AVG:
        result += values[i];
        break;
      case SK_PROD:
        result *= values[i];
        break;
      case SK_MIN:
        result = std::min(result, values[i]);
        break;
      default:
        result = std::max(result, values[i]);
    }
  }
  return op == SK_AVG ? result / double(values.size()) : result;
}

// To the nearest with `bits` of significand, ties to even.
double rounded_to(double x, int bits, int exponent_min, int exponent_max) {
  if (x == 0 || !std::isfinite(x)) return x;
  const int exponent = std::max(std::ilogb(x), exponent_min);
  const double step = std::ldexp(1.0, exponent - (bits - 1));
  const double result = std::copysign(std::nearbyint(x / step) * step, x);
  const double most = std::ldexp(2.0 - std::ldexp(1.0, 1 - bits), exponent_max);
  return std::fabs(result) > most ? std::copysign(INFINITY, x) : result;
}

// In rank order, each step rounded to Sum.
template <typename Sum>
double fold(int32_t op, const std::vector<double>& values) {
  Sum result = Sum(values[0]);
  for (size_t i = 1; i < values.size(); ++i) {
    const Sum value = Sum(values[i]);
    if (op == SK_MIN || op == SK_MAX) {
      if (std::isnan(value) || (op == SK_MIN ? value < result : value > result)) result = value;
    } else {
      result = op == SK_PROD ? result * value : result + value;
    }
  }
  return op == SK_AVG ? result / Sum(values.size()) : result;
}

// include/sk/op.h: bf16 and f16 are reduced in f32, all in rank order, and rounded once.
double reduce_any(int32_t op, int32_t dtype, const std::vector<double>& values) {
  if (dtype == SK_F64) return fold<double>(op, values);
  const double result = fold<float>(op, values);
  if (dtype == SK_BF16) return rounded_to(result, 8, -126, 127);
  return dtype == SK_F16 ? rounded_to(result, 11, -14, 15) : result;
}

std::vector<double> widen(const std::vector<char>& data, int64_t count, int32_t dtype) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(load(data.data(), i, dtype));
  return values;
}

// To the block of M rows of `out` from `first_row` on.
void add_product(const Case& c, const std::vector<double>& a, const std::vector<double>& b,
                 int64_t first_row, std::vector<double>& out) {
  for (int64_t row = 0; row < c.m; ++row) {
    for (int64_t col = 0; col < c.n; ++col) {
      double sum = 0;
      for (int64_t p = 0; p < c.k; ++p) {
        sum += a[size_t(c.transpose_a ? p * c.m + row : row * c.k + p)] *
               b[size_t(c.transpose_b ? col * c.k + p : p * c.n + col)];
      }
      out[size_t((first_row + row) * c.n + col)] += sum;
    }
  }
}

}  // namespace

size_t size_of(int32_t dtype) {
  return dtype == SK_F32 || dtype == SK_I32 ? 4 : dtype == SK_BF16 || dtype == SK_F16 ? 2 : 8;
}

double load(const void* data, int64_t i, int32_t dtype) {
  switch (dtype) {
    case SK_F32:
      return get<float>(data, i);
    case SK_F64:
      return get<double>(data, i);
    case SK_BF16:
      return std::bit_cast<float>(uint32_t(get<uint16_t>(data, i)) << 16);
    case SK_F16:
      return widen_half(get<uint16_t>(data, i));
    case SK_I32:
      return get<int32_t>(data, i);
    default:
      return double(get<int64_t>(data, i));
  }
}

void store(void* data, int64_t i, int32_t dtype, double value) {
  switch (dtype) {
    case SK_F32:
      return put(data, i, float(value));
    case SK_F64:
      return put(data, i, value);
    case SK_BF16:
      return put(data, i, uint16_t(std::bit_cast<uint32_t>(float(value)) >> 16));
    case SK_F16:
      return put(data, i, narrow_half(value));
    case SK_I32:
      return put(data, i, int32_t(value));
    default:
      return put(data, i, int64_t(value));
  }
}

void fill(void* data, int64_t count, int32_t dtype, int32_t op, uint64_t seed) {
  uint16_t table[7];
  for (int v = -3; v <= 3; ++v) table[v + 3] = narrow_half(v);
  for (int64_t i = 0; i < count; ++i) {
    uint64_t z = seed * 0x9e3779b97f4a7c15u + uint64_t(i) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 29)) * 0x94d049bb133111ebu;
    z ^= z >> 32;
    // Products only of 1, -1 and few 2s: 2^16 is exact everywhere but in f16, so no 2s there.
    const int value = op == SK_PROD ? (z % 8 == 0 && dtype != SK_F16 ? 2
                                       : z % 2                       ? 1
                                                                     : -1)
                                    : int(z % 7) - 3;
    if (dtype == SK_F16) {
      put(data, i, table[value + 3]);
    } else {
      store(data, i, dtype, value);
    }
  }
}

void fill_any_bits(void* data, int64_t count, int32_t dtype, uint64_t seed) {
  const int bits = int(size_of(dtype)) * 8;
  const int mantissa = dtype == SK_F64 ? 52 : dtype == SK_F32 ? 23 : dtype == SK_BF16 ? 7 : 10;
  const uint64_t one = ((uint64_t(1) << (bits - 2)) - 1) >> mantissa << mantissa;  // 1.0
  const uint64_t sign = uint64_t(1) << (bits - 1);
  const uint64_t infinity = (sign - 1) >> mantissa << mantissa;
  const uint64_t specials[] = {0,        infinity,     infinity | 1,
                               sign - 1, infinity - 1, (uint64_t(1) << mantissa) - 1};
  for (int64_t i = 0; i < count; ++i) {
    const auto mixed = [](uint64_t z) {
      z = (z ^ (z >> 29)) * 0x94d049bb133111ebu;
      return z ^ (z >> 32);
    };
    const uint64_t z = mixed(seed * 0x9e3779b97f4a7c15u + uint64_t(i) * 0xbf58476d1ce4e5b9u);
    const uint64_t place = mixed(uint64_t(i) * 0x9e3779b97f4a7c15u) % 8;  // Alike on all ranks.
    uint64_t value = z;
    if (place == 0) value = specials[z % 6] | (z >> 32 & 1 ? sign : 0);
    if (place > 1) {  // A fraction of any sign between 1/8 and 8.
      value = one + (z % 6 << mantissa) - (uint64_t(3) << mantissa);
      value |= (z >> 8 & ((uint64_t(1) << mantissa) - 1)) | (z >> 63 ? sign : 0);
    }
    std::memcpy(static_cast<char*>(data) + i * (bits / 8), &value, size_t(bits / 8));
  }
}

bool multiplies(const Case& c) {
  return c.kind == SK_OP_ALLREDUCE_GEMM || c.kind == SK_OP_ALLGATHER_GEMM;
}

int64_t in_count(const Case& c, int ranks) {
  if (multiplies(c)) return c.m * c.k;
  return c.kind == SK_OP_REDUCE_SCATTER ? c.count * ranks : c.count;
}

int64_t out_count(const Case& c, int ranks) {
  if (c.kind == SK_OP_BARRIER) return 0;
  if (multiplies(c)) return (c.kind == SK_OP_ALLGATHER_GEMM ? ranks : 1) * c.m * c.n;
  return c.kind == SK_OP_ALLGATHER ? c.count * ranks : c.count;
}

std::vector<double> expected(const Case& c, int rank, const std::vector<std::vector<char>>& inputs,
                             const std::vector<std::vector<char>>& weights) {
  const int ranks = int(inputs.size());
  if (c.kind == SK_OP_SEND_RECV && rank != c.peer) return {};  // Keeps what it has.
  std::vector<double> out(size_t(out_count(c, ranks)));
  const auto in = [&](int r, int64_t i) { return load(inputs[size_t(r)].data(), i, c.dtype); };
  std::vector<double> values(static_cast<size_t>(ranks));
  const auto joined = [&](const std::vector<double>& of) {
    return c.any_bits ? reduce_any(c.op, c.dtype, of) : reduce(c.op, of);
  };
  for (int64_t i = 0; i < int64_t(out.size()); ++i) {
    switch (c.kind) {
      case SK_OP_ALLREDUCE:
        for (int r = 0; r < ranks; ++r) values[size_t(r)] = in(r, i);
        out[size_t(i)] = joined(values);
        break;
      case SK_OP_REDUCE_SCATTER:
        for (int r = 0; r < ranks; ++r) values[size_t(r)] = in(r, rank * c.count + i);
        out[size_t(i)] = joined(values);
        break;
      case SK_OP_ALLGATHER:
        out[size_t(i)] = in(int(i / c.count), i % c.count);
        break;
      case SK_OP_BROADCAST:
      case SK_OP_SEND_RECV:
        out[size_t(i)] = in(c.root, i);
        break;
      default:
        break;
    }
  }
  if (!multiplies(c)) return out;
  const bool gathers = c.kind == SK_OP_ALLGATHER_GEMM;
  for (size_t r = 0; r < inputs.size(); ++r) {
    add_product(c, widen(inputs[r], c.m * c.k, c.dtype),
                widen(weights[gathers ? size_t(rank) : r], c.k * c.n, c.dtype),
                gathers ? int64_t(r) * c.m : 0, out);
  }
  return out;
}

Case random_case(std::mt19937_64& random, int ranks, bool large) {
  const auto upto = [&](int64_t n) { return int64_t(random() % uint64_t(n + 1)); };
  Case c;
  // Barriers are rare, for they hold the ranks together; a world of one cannot send.
  const int32_t kinds[] = {SK_OP_ALLREDUCE, SK_OP_ALLGATHER,      SK_OP_REDUCE_SCATTER,
                           SK_OP_BROADCAST, SK_OP_ALLREDUCE_GEMM, SK_OP_ALLGATHER_GEMM,
                           SK_OP_SEND_RECV};
  const int32_t large_kinds[] = {SK_OP_ALLREDUCE, SK_OP_ALLREDUCE_GEMM, SK_OP_ALLGATHER_GEMM};
  c.kind = upto(19) == 0 ? int32_t(SK_OP_BARRIER) : kinds[upto(ranks > 1 ? 6 : 5)];
  if (large) c.kind = large_kinds[upto(2)];
  c.seed = uint32_t(random());
  c.symmetric = upto(1) == 1;
  c.in_place = upto(2) == 0;
  if (multiplies(c)) {
    const int32_t floats[] = {SK_F32, SK_F64, SK_BF16, SK_F16};
    c.dtype = floats[upto(3)];
    // |A * B| <= 9, so sums of 16 ranks over k stay exact in f32; in bf16 and f16 only f32 output
    // is.
    c.out_dtype = c.dtype == SK_BF16 || c.dtype == SK_F16 ? SK_F32 : c.dtype;
    c.m = 1 + upto(large ? 500 : 90);
    c.n = 1 + upto(large ? 1200 : 150);
    c.k = upto(large ? 20 : 70);
    c.packed = upto(1) == 1;
    c.transpose_a = upto(3) == 0;
    c.transpose_b = upto(3) == 0;
    c.in_place = false;
    return c;
  }
  if (c.kind == SK_OP_BARRIER) {
    c.symmetric = c.in_place = false;
    return c;
  }
  c.dtype = c.out_dtype = int32_t(SK_F32 + upto(5));
  c.op = int32_t(SK_SUM + upto(3));
  // An average is exact where the number of ranks is a power of two.
  if (c.dtype <= SK_F16 && (ranks & (ranks - 1)) == 0 && upto(4) == 0) c.op = SK_AVG;
  // The average of sums up to 48 by 16 needs 10 bits: bf16 has 8.
  if (c.dtype == SK_BF16 && c.op == SK_AVG && ranks > 4) c.op = SK_SUM;
  c.any_bits = c.dtype <= SK_F16 && upto(1) == 1;
  const int64_t scales[] = {3, 70, 1000, 20000, 150000};
  c.count = upto(large ? 600000 : scales[upto(4)]) / ranks;
  c.root = int32_t(upto(ranks - 1));
  if (c.kind == SK_OP_SEND_RECV) {
    c.in_place = false;
    c.peer = int32_t((c.root + 1 + upto(ranks - 2)) % ranks);
  }
  return c;
}

}  // namespace sk::testing_ops
