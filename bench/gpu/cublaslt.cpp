#include "bench/gpu/cublaslt.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

namespace sk::cuda {
namespace {

// The interface of cublasLt.h as far as it is used, of CUDA 12 and 13 alike.
using Handle = struct HandleOpaque*;
using Desc = struct DescOpaque*;
using Layout = struct LayoutOpaque*;
using Preference = struct PreferenceOpaque*;
struct Algorithm {
  uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
};
constexpr int kR32F = 0, kR16BF = 14, kCompute32F = 68, kAsItIs = 0, kTransposed = 1;
constexpr int kDescTransA = 3, kPreferWorkspaceMax = 1, kPreferReductionSchemes = 3;
// Sums of parts of k in 32 bits only: in those of the output they would be rounded on the way.
constexpr uint32_t kReduceInComputeType = 2;
constexpr size_t kWorkspaceBytes = 64 << 20;
constexpr int kAlgorithmsMax = 8;

// X(name, parameters...)
#define SK_CUBLASLT_FUNCTIONS(X)                                                                   \
  X(cublasLtCreate, Handle*)                                                                       \
  X(cublasLtDestroy, Handle)                                                                       \
  X(cublasLtMatmulDescCreate, Desc*, int, int)                                                     \
  X(cublasLtMatmulDescDestroy, Desc)                                                               \
  X(cublasLtMatmulDescSetAttribute, Desc, int, const void*, size_t)                                \
  X(cublasLtMatrixLayoutCreate, Layout*, int, uint64_t, uint64_t, int64_t)                         \
  X(cublasLtMatrixLayoutDestroy, Layout)                                                           \
  X(cublasLtMatmulPreferenceCreate, Preference*)                                                   \
  X(cublasLtMatmulPreferenceDestroy, Preference)                                                   \
  X(cublasLtMatmulPreferenceSetAttribute, Preference, int, const void*, size_t)                    \
  X(cublasLtMatmulAlgoGetHeuristic, Handle, Desc, Layout, Layout, Layout, Layout, Preference, int, \
    Heuristic*, int*)                                                                              \
  X(cublasLtMatmul, Handle, Desc, const void*, const void*, Layout, const void*, Layout,           \
    const void*, const void*, Layout, void*, Layout, const Algorithm*, void*, size_t, abi::Stream)

void check(int status, const char* call) {
  if (status != 0) throw std::runtime_error(fmt::format("{}: status {}", call, status));
}

}  // namespace

struct CublasLt::Library {
#define SK_MEMBER(name, ...) int (*name)(__VA_ARGS__) = nullptr;
  SK_CUBLASLT_FUNCTIONS(SK_MEMBER)
#undef SK_MEMBER
  size_t (*version)() = nullptr;
  Handle handle = nullptr;
};

// In its column-major words: C turned [n, m] = B turned back [n, k] times A turned [k, m]. Rows of
// n are such a B as they are.
struct CublasLt::Product {
  explicit Product(const Library& library) : library(library) {}
  ~Product() {
    if (desc != nullptr) library.cublasLtMatmulDescDestroy(desc);
    for (const Layout layout : {a, b, c})
      if (layout != nullptr) library.cublasLtMatrixLayoutDestroy(layout);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  const Library& library;
  Desc desc = nullptr;
  Layout a = nullptr, b = nullptr, c = nullptr;
  Heuristic found[kAlgorithmsMax] = {};
  int count = 0;
};

CublasLt::CublasLt(const Machine& machine) : machine_(machine) {
  const char* chosen = std::getenv("SK_CUBLASLT");
  if (!machine.is_real() && chosen == nullptr) {
    absent_ = "the GPU is a fake one";
    return;
  }
  void* handle = nullptr;
  for (const char* name : {chosen, "libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13"})
    if (handle == nullptr && name != nullptr) handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    absent_ = dlerror();
    return;
  }
  auto library = std::make_unique<Library>();
#define SK_LOAD(name, ...)                                                         \
  library->name = reinterpret_cast<decltype(library->name)>(dlsym(handle, #name)); \
  if (library->name == nullptr) absent_ = "it has no " #name;
  SK_CUBLASLT_FUNCTIONS(SK_LOAD)
#undef SK_LOAD
  library->version = reinterpret_cast<size_t (*)()>(dlsym(handle, "cublasLtGetVersion"));
  if (library->version == nullptr) absent_ = "it does not say its version";
  if (!absent_.empty()) return;
  if (const int status = library->cublasLtCreate(&library->handle); status != 0) {
    absent_ = fmt::format("cublasLtCreate: status {}", status);
    return;
  }
  library_ = std::move(library);
  workspace_ = std::make_unique<Matrix>(machine, kWorkspaceBytes);
}

CublasLt::~CublasLt() {
  product_.reset();
  if (library_ != nullptr) library_->cublasLtDestroy(library_->handle);
}

uint64_t CublasLt::version() const { return library_ != nullptr ? library_->version() : 0; }

int CublasLt::prepare(const Shape& shape, OfB of_b) {
  const Library& lt = *library_;
  auto product = std::make_unique<Product>(lt);
  const uint64_t m = uint64_t(shape.m), n = uint64_t(shape.n), k = uint64_t(shape.k);
  check(lt.cublasLtMatmulDescCreate(&product->desc, kCompute32F, kR32F), "MatmulDescCreate");
  const bool by_rows = of_b == OfB::kKN;
  const int how = by_rows ? kAsItIs : kTransposed;
  check(lt.cublasLtMatmulDescSetAttribute(product->desc, kDescTransA, &how, sizeof how),
        "MatmulDescSetAttribute");
  const uint64_t pitch = by_rows ? shape.kn_pitch() : shape.b_pitch();
  check(lt.cublasLtMatrixLayoutCreate(&product->b, kR16BF, by_rows ? n : k, by_rows ? k : n,
                                      int64_t(pitch / 2)),
        "MatrixLayoutCreate");
  check(lt.cublasLtMatrixLayoutCreate(&product->a, kR16BF, k, m, int64_t(shape.a_pitch() / 2)),
        "MatrixLayoutCreate");
  check(lt.cublasLtMatrixLayoutCreate(&product->c, kR16BF, n, m, int64_t(n)), "MatrixLayoutCreate");
  Preference preference = nullptr;
  check(lt.cublasLtMatmulPreferenceCreate(&preference), "MatmulPreferenceCreate");
  check(lt.cublasLtMatmulPreferenceSetAttribute(preference, kPreferWorkspaceMax, &kWorkspaceBytes,
                                                sizeof kWorkspaceBytes),
        "MatmulPreferenceSetAttribute");
  check(lt.cublasLtMatmulPreferenceSetAttribute(preference, kPreferReductionSchemes,
                                                &kReduceInComputeType, sizeof kReduceInComputeType),
        "MatmulPreferenceSetAttribute");
  const int status = lt.cublasLtMatmulAlgoGetHeuristic(
      lt.handle, product->desc, product->b, product->a, product->c, product->c, preference,
      kAlgorithmsMax, product->found, &product->count);
  lt.cublasLtMatmulPreferenceDestroy(preference);
  check(status, "MatmulAlgoGetHeuristic");
  if (product->count == 0) throw std::runtime_error("cuBLASLt names no algorithm");
  product_ = std::move(product);
  return product_->count;
}

void CublasLt::enqueue(int algorithm, const Matrix& a, const Matrix& b, const Matrix& c) const {
  const float one = 1, zero = 0;
  const Product& product = *product_;
  check(library_->cublasLtMatmul(library_->handle, product.desc, &one, b.data(), product.b,
                                 a.data(), product.a, &zero, c.data(), product.c, c.data(),
                                 product.c, &product.found[algorithm].algorithm, workspace_->data(),
                                 kWorkspaceBytes, machine_.stream()),
        "cublasLtMatmul");
}

}  // namespace sk::cuda
