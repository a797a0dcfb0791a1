// Looks at where two cores lie (place.h) for programs whose workers are threads of one process.
#ifndef SK_BENCH_E2E_LOOKS_H_
#define SK_BENCH_E2E_LOOKS_H_

#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "bench/e2e/place.h"

namespace sk_bench {

// Those of the first two cores that the process may use; none where it has one. The caller's own
// affinity is as before afterwards.
class Looks {
 public:
  Looks() {
    CPU_ZERO(&all_);
    if (sched_getaffinity(0, sizeof all_, &all_) != 0) return;
    for (int cpu = 0; cpu < CPU_SETSIZE && found_ < 2; ++cpu) {
      if (CPU_ISSET(cpu, &all_)) cores_[found_++] = cpu;
    }
  }

  // "" or the start of a JSON line's field, for the looks before and after.
  static std::string field(const bench_place& before, const bench_place& after) {
    if (before.handoff_ns <= 0.0 || after.handoff_ns <= 0.0) return "";
    char text[200];
    snprintf(text, sizeof text, "\"place\": [[%.1f, %.3f, %.3f], [%.1f, %.3f, %.3f]], ",
             before.handoff_ns, before.together, before.chain_us, after.handoff_ns, after.together,
             after.chain_us);
    return text;
  }

  bench_place look() {
    bench_place place = {};
    if (found_ < 2) return place;
    std::thread other([this] {
      pin(cores_[1]);
      bench_place none = {};
      bench_read_place(meeting_.get(), 1, &turns_[1], &failed_, kSecondsMax, &none);
    });
    pin(cores_[0]);
    bench_read_place(meeting_.get(), 0, &turns_[0], &failed_, kSecondsMax, &place);
    other.join();
    sched_setaffinity(0, sizeof all_, &all_);
    return place;
  }

 private:
  static constexpr double kSecondsMax = 60.0;

  static void pin(int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
  }

  cpu_set_t all_;
  int cores_[2] = {}, found_ = 0;
  std::unique_ptr<bench_meeting> meeting_ = std::make_unique<bench_meeting>();
  uint32_t turns_[2] = {}, failed_ = 0;
};

}  // namespace sk_bench

#endif  // SK_BENCH_E2E_LOOKS_H_
