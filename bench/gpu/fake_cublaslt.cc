// A libcublasLt for tests: it names an algorithm to those alone who ask for sums in 32 bits, and
// its products fail.
#include <cstddef>
#include <cstdint>
#include <cstring>

#define SK_EXPORT extern "C" __attribute__((visibility("default")))

namespace {
uint32_t g_reductions = UINT32_MAX;
int g_object = 0;
constexpr int kNotSupported = 15, kExecutionFailed = 13;

int make(void** object) { return *object = &g_object, 0; }
}  // namespace

SK_EXPORT size_t cublasLtGetVersion() { return 130101; }
SK_EXPORT int cublasLtCreate(void** handle) { return make(handle); }
SK_EXPORT int cublasLtDestroy(void*) { return 0; }
SK_EXPORT int cublasLtMatmulDescCreate(void** desc, int, int) { return make(desc); }
SK_EXPORT int cublasLtMatmulDescDestroy(void*) { return 0; }
SK_EXPORT int cublasLtMatmulDescSetAttribute(void*, int, const void*, size_t) { return 0; }
SK_EXPORT int cublasLtMatrixLayoutCreate(void** layout, int, uint64_t, uint64_t, int64_t) {
  return make(layout);
}
SK_EXPORT int cublasLtMatrixLayoutDestroy(void*) { return 0; }
SK_EXPORT int cublasLtMatmulPreferenceCreate(void** preference) { return make(preference); }
SK_EXPORT int cublasLtMatmulPreferenceDestroy(void*) { return 0; }
SK_EXPORT int cublasLtMatmulPreferenceSetAttribute(void*, int which, const void* value,
                                                   size_t bytes) {
  if (which == 3 && bytes == sizeof g_reductions) std::memcpy(&g_reductions, value, bytes);
  return 0;
}
SK_EXPORT int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int,
                                             void*, int* count) {
  if (g_reductions != 2) return kNotSupported;
  *count = 1;
  return 0;
}
SK_EXPORT int cublasLtMatmul(void*, void*, const void*, const void*, void*, const void*, void*,
                             const void*, const void*, void*, void*, void*, const void*, void*,
                             size_t, void*) {
  return kExecutionFailed;
}
