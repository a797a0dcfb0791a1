// Benchmarks on a GPU: gpu_bench describe | gemm | pairs | fused | collectives | latency. Lines of
// JSON.
//
// With SK_GPU=fake they run on the CPU in a GPU's place: that tries this program, and its times say
// nothing.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>

#include "bench/gpu/cublaslt.h"
#include "bench/gpu/parts.h"
#include "bench/gpu/rounds.h"

namespace sk::cuda {
namespace {

void describe(const Machine& machine) {
  int version = 0, capability[2] = {};
  const Driver& driver = machine.device().driver();
  machine.check(driver.cuDriverGetVersion(&version), "cuDriverGetVersion");
  const abi::DeviceAttribute wanted[] = {abi::kComputeCapabilityMajor,
                                         abi::kComputeCapabilityMinor};
  abi::Device device = 0;
  machine.check(driver.cuDeviceGet(&device, machine.device().ordinal()), "cuDeviceGet");
  for (int i = 0; i < 2; ++i)
    machine.check(driver.cuDeviceGetAttribute(&capability[i], wanted[i], device),
                  "cuDeviceGetAttribute");
  const CublasLt peer(machine);
  fmt::print(
      "{{\"real\":{},\"why_fake\":{},\"device\":{},\"capability\":\"{}.{}\","
      "\"multiprocessors\":{},\"memory_free\":{},\"driver\":{},\"driver_cuda\":\"{}\","
      "\"kernels_cuda\":\"{}\",\"cublaslt\":{},\"cublaslt_absent\":{}}}\n",
      machine.is_real(), quoted(machine.reason()), quoted(machine.device().name()), capability[0],
      capability[1], machine.device().multiprocessors(), machine.free_bytes(),
      quoted(machine.runtime().release), version_text(uint32_t(version)),
      version_text(machine.runtime().kernels.toolkit), peer.version(), quoted(peer.absent()));
}

int run(const std::string& part) {
  const struct {
    const char* name;
    void (*measure)(const Machine&);
  } parts[] = {{"describe", describe},
               {"gemm", measure_gemm},
               {"pairs", measure_pairs},
               {"fused", measure_fused},
               {"collectives", measure_collectives},
               {"latency", measure_latency}};
  for (const auto& each : parts) {
    if (part != each.name) continue;
    each.measure(Machine::get());
    return 0;
  }
  std::fputs("usage: gpu_bench describe|gemm|pairs|fused|collectives|latency\n", stderr);
  return 2;
}

}  // namespace
}  // namespace sk::cuda

int main(int argc, char** argv) {
  try {
    return sk::cuda::run(argc == 2 ? argv[1] : "");
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "%s\n", problem.what());
    return 1;
  }
}
