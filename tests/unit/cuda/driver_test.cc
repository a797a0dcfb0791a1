// The driver's table: loaded, started, and what is said where it cannot be.
#include "cuda/driver/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/driver/nvml.h"
#include "tests/unit/cuda/fake_driver.h"

namespace sk::cuda {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Driver, AnAbsentOneIsNamed) {
  const Result<Driver> driver = load_driver("libcuda-is-not-here.so.1");
  EXPECT_EQ(driver.status().code(), SK_ERR_UNSUPPORTED);
  EXPECT_THAT(driver.status().message(), HasSubstr("no NVIDIA driver on this machine"));
}

TEST(Driver, OneWithoutAFunctionOfOursIsTooOld) {
  const Result<Driver> driver = load_driver("libm.so.6");
  EXPECT_EQ(driver.status().code(), SK_ERR_UNSUPPORTED);
  EXPECT_THAT(driver.status().message(), HasSubstr("libm.so.6 has no cuInit"));
}

TEST(Driver, AnOlderOneIsRefusedWithBothVersions) {
  FakeDriver fake;
  fake.version = 12080;
  const Status status = start_driver(fake.runtime().driver, 13000, "570.124.06");
  EXPECT_EQ(status.code(), SK_ERR_UNSUPPORTED);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("driver 570.124.06 is for CUDA 12.8"),
                                      HasSubstr("of CUDA 13.0"), HasSubstr("CUDA 13 or later")));
  EXPECT_EQ(fake.count(Call::cuInit), 0);
}

TEST(Driver, AnotherMinorVersionOrALaterMajorOneWillDo) {
  FakeDriver fake;
  for (const int version : {13000, 13020, 14000}) {
    fake.version = version;
    EXPECT_TRUE(start_driver(fake.runtime().driver, 13010, "").ok()) << version;
  }
}

TEST(Driver, AMachineWithoutAGpuIsSaid) {
  FakeDriver fake;
  fake.gpus.clear();
  const Status status = start_driver(fake.runtime().driver, 13000, "");
  EXPECT_EQ(status.code(), SK_ERR_UNSUPPORTED);
  EXPECT_THAT(status.message(), HasSubstr("sees no GPU"));
}

TEST(Driver, ErrorsHaveTheCallAndTheName) {
  FakeDriver fake;
  const Driver& driver = fake.runtime().driver;
  EXPECT_TRUE(driver_status(driver, abi::kSuccess, "cuInit").ok());
  const Status memory = driver_status(driver, abi::kOutOfMemory, "cuMemAlloc");
  EXPECT_EQ(memory.code(), SK_ERR_NO_MEMORY);
  EXPECT_THAT(memory.message(),
              AllOf(HasSubstr("cuMemAlloc"), HasSubstr("CUDA_ERROR_OUT_OF_MEMORY")));
  EXPECT_EQ(driver_status(driver, abi::kUnknown, "cuInit").code(), SK_ERR_DEVICE);
  // One that not even the driver has a name for.
  EXPECT_THAT(driver_status(driver, 12345, "cuInit").message(), HasSubstr("error 12345"));
}

TEST(Driver, StickyErrorsAskForARestart) {
  FakeDriver fake;
  const Status status = driver_status(fake.runtime().driver, abi::kIllegalAddress, "cuMemAlloc");
  EXPECT_EQ(status.code(), SK_ERR_DEVICE);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"), HasSubstr("must be restarted")));
  EXPECT_FALSE(is_sticky(abi::kOutOfMemory));
  EXPECT_FALSE(is_sticky(abi::kNotReady));
}

TEST(Nvml, SaysTheReleaseOrNothing) {
  EXPECT_EQ(driver_release(load_nvml("libnvml-is-not-here.so.1")), "");
  EXPECT_EQ(driver_release(load_nvml("libm.so.6")), "");
  Nvml nvml;
  nvml.init = [] { return 0; };
  nvml.shutdown = [] { return 0; };
  nvml.system_driver_version = [](char* text, unsigned bytes) {
    std::snprintf(text, bytes, "580.65.06");
    return 0;
  };
  EXPECT_EQ(driver_release(nvml), "580.65.06");
  nvml.system_driver_version = [](char*, unsigned) { return 9; };  // No driver behind it.
  EXPECT_EQ(driver_release(nvml), "");
}

}  // namespace
}  // namespace sk::cuda
