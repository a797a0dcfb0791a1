// Benchmarks on a GPU: gpu_bench PART [CASE], one case of the part or all of them; gpu_bench
// describe; gpu_bench probe, which only tells whether the GPU answers. Lines of JSON, each out as
// soon as it is known, whatever comes after it.
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

void describe(const Machine& machine, const Wanted&) {
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

// Opening it has run a kernel already (sk_tell_needs). Nothing of a peer's is loaded.
void probe(const Machine& machine) {
  machine.synchronize();
  fmt::print("{{\"answers\":{}}}\n", quoted(machine.device().name()));
}

constexpr struct {
  const char* name;
  void (*act)(const Machine&, const Wanted&);
} kParts[] = {{"bare", check_bare},         {"bare_pairs", check_bare_pairs},
              {"versus", measure_versus},   {"versus_pairs", measure_versus_pairs},
              {"order", measure_order},     {"gemm", measure_gemm},
              {"raw", measure_raw},         {"pairs", measure_pairs},
              {"fused", measure_fused},     {"collectives", measure_collectives},
              {"latency", measure_latency}, {"stalls", measure_stalls}};

int run(const std::string& part, const std::string& name) {
  if (part == "probe") return probe(Machine::get()), 0;
  if (part == "describe") return describe(Machine::get(), Wanted()), 0;
  for (const auto& each : kParts) {
    if (part != each.name) continue;
    const Wanted wanted(name);
    say_begun("opening the GPU");
    each.act(Machine::get(), wanted);
    wanted.check();
    return 0;
  }
  std::string names = "probe|describe";
  for (const auto& each : kParts) names += fmt::format("|{}", each.name);
  fmt::print(stderr, "usage: gpu_bench {} [CASE]\n", names);
  return 2;
}

}  // namespace
}  // namespace sk::cuda

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // What ends this program takes no line with it.
  try {
    return sk::cuda::run(argc == 2 || argc == 3 ? argv[1] : "", argc == 3 ? argv[2] : "");
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "%s\n", problem.what());
    return 1;
  }
}
