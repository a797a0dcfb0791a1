// How fast the GPU runs and what holds it back, as NVML says: beside every time, for a figure taken
// at another clock is another figure.
#ifndef SK_BENCH_GPU_HEALTH_H_
#define SK_BENCH_GPU_HEALTH_H_

#include <string>
#include <vector>

namespace sk::cuda {

class Health {
 public:
  // Of the first GPU that NVML names. `library`: for tests.
  explicit Health(const char* library = "libnvidia-ml.so.1");
  ~Health();
  Health(const Health&) = delete;
  Health& operator=(const Health&) = delete;

  // Why there is none; "": there is.
  const std::string& absent() const { return absent_; }

  struct Reading {
    unsigned sm_mhz = 0, memory_mhz = 0, milliwatts = 0, celsius = 0;
    unsigned long long reasons = 0;  // What holds the clocks back: nvmlClocksEventReasons.
  };
  // Now; while work is under way, for an idle GPU has other clocks. What cannot be had is 0.
  Reading read() const;

 private:
  struct Library;
  Library* library_ = nullptr;  // Of dlopen(); stays.
  void* device_ = nullptr;
  std::string absent_;
};

// As the member "gpu" of a line of JSON: medians, and the reasons of all readings by name.
std::string as_json(const Health& health, const std::vector<Health::Reading>& readings);

}  // namespace sk::cuda

#endif  // SK_BENCH_GPU_HEALTH_H_
