// What a person asks of a machine first: its name, processor, memory and GPUs, as JSON.
#ifndef SK_LIB_TOPO_HOST_H_
#define SK_LIB_TOPO_HOST_H_

#include <cstdint>
#include <string>
#include <vector>

namespace sk::topo {

struct Gpu {
  std::string name;
  uint64_t memory_bytes = 0;
};

// Empty where the machine has no NVIDIA driver.
struct GpuFacts {
  std::vector<Gpu> gpus;
  std::string driver;  // Its version.
  std::string cuda;    // The newest CUDA that the driver runs, "12.4".
};

// Asks the management library, which starts no GPU runtime and leaves the GPUs alone. `library` is
// what dlopen() takes.
GpuFacts ask_nvml(const char* library);

// Where the facts are read, so that tests can give them.
struct HostSources {
  std::string proc = "/proc";
  const char* nvml = "libnvidia-ml.so.1";
};

// {"host", "cpu", "cores", "memory_bytes", "gpus": [{"name", "memory_bytes"}], "driver", "cuda"}.
// "cores" are the hardware threads that this process may use. What is not known is "" or 0.
std::string host_facts(const HostSources& sources);

}  // namespace sk::topo

#endif  // SK_LIB_TOPO_HOST_H_
