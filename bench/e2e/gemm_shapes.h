// Command lines of the GEMM benchmarks.
#ifndef SK_BENCH_E2E_GEMM_SHAPES_H_
#define SK_BENCH_E2E_GEMM_SHAPES_H_

#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "bench/e2e/gemm_data.h"

namespace sk_bench {

// "512x512x512,1000x777x333" (M x N x K); false when anything else.
inline bool parse_shapes(const char* text, std::vector<Shape>* shapes) {
  std::istringstream list(text);
  for (std::string item; std::getline(list, item, ',');) {
    long long m = 0, n = 0, k = 0;
    char rest = 0;
    if (sscanf(item.c_str(), "%lldx%lldx%lld%c", &m, &n, &k, &rest) != 3) return false;
    if (m < 1 || n < 1 || k < 1) return false;
    shapes->push_back({m, n, k});
  }
  return !shapes->empty();
}

// "f32,bf16"; false when anything else.
inline bool parse_dtypes(const char* text, std::vector<std::string>* dtypes) {
  std::istringstream list(text);
  for (std::string item; std::getline(list, item, ',');) {
    if (item != "f32" && item != "bf16") return false;
    dtypes->push_back(item);
  }
  return !dtypes->empty();
}

}  // namespace sk_bench

#endif  // SK_BENCH_E2E_GEMM_SHAPES_H_
