// libsk_cuda.so as it was built.
#include "cuda/exec/bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "cuda/exec/device.h"

namespace sk::cuda {
namespace {

TEST(Bundle, HoldsAFatbinForThisLibrary) {
  const Result<KernelBundle> bundle = load_bundle(SK_CUDA_LIBRARY);
  ASSERT_TRUE(bundle.ok()) << bundle.status().message();
  EXPECT_EQ(bundle.value().interface, kKernelInterface);
  EXPECT_GE(bundle.value().toolkit, 12090u);
  uint32_t magic = 0;
  std::memcpy(&magic, bundle.value().image, sizeof magic);
  EXPECT_EQ(magic, 0xba55ed50u);  // fatbinary_section.h.
  EXPECT_GT(bundle.value().image_bytes, 10'000u);
}

TEST(Bundle, AnythingElseIsRefused) {
  EXPECT_THAT(load_bundle("/nowhere/libsk_cuda.so.0").status().message(),
              testing::HasSubstr("has no kernels for GPUs"));
  EXPECT_THAT(load_bundle("libm.so.6").status().message(),
              testing::HasSubstr("of another version"));
}

}  // namespace
}  // namespace sk::cuda
