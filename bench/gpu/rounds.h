// Times of several candidates by the GPU's own events, taken in turns, as lines of JSON.
#ifndef SK_BENCH_GPU_ROUNDS_H_
#define SK_BENCH_GPU_ROUNDS_H_

#include <string>
#include <vector>

#include "tests/gpu/machine.h"

namespace sk::cuda {

struct Effort {
  int rounds;   // Each visits every candidate twice, in an order that reads the same backwards.
  int samples;  // Of one visit.
  double sample_us;  // Runs are put behind each other until a sample takes so long.
  int runs_max;      // Of one sample.
};
Effort effort(const Machine& machine);

// What is compared within one case. `enqueue(i)` puts run i on the machine's stream; it is captured
// into a graph, `period` runs or a multiple of that, so that gaps between launches by the host are
// in nobody's time.
struct Candidate {
  std::string name;
  std::function<void(int run)> enqueue;
  std::string note;  // For the reader: which kernel, which algorithm.
  // Somebody else's: where it fails, or its results are wrong, the others are measured without it.
  bool is_peer = false;
};

// Which of them takes least: after 100 ms of runs, by medians of three times there and back.
size_t fastest(const Machine& machine, const std::vector<Candidate>& candidates, int period);

// Whose samples have the least median; the first of equals. None may be empty.
size_t least_by_median(std::vector<std::vector<double>> samples);

// One line for each candidate: {"part", "case", "candidate", "note", "runs", "gpu", "rounds"}, with
// microseconds of one run as rounds[round][visit][sample], and what clocks, power and temperature
// were while it ran.
void measure(const Machine& machine, const std::string& part, const std::string& name,
             const std::vector<Candidate>& candidates, int period);

// A candidate that there is not, and why.
void print_absent(const std::string& part, const std::string& name, const std::string& candidate,
                  const std::string& why);
// One line of figures that are no rounds, named by their unit: "us", "share".
void print_samples(const std::string& part, const std::string& name, const std::string& candidate,
                   const std::string& unit, const std::vector<double>& samples);
std::string quoted(const std::string& text);  // As a JSON string.

// What begins now, for whoever finds that it did not end: no line of JSON, and out at once.
void say_begun(const std::string& what);

// Microseconds from the launch of `replay` to its end. `meanwhile` is called once it is launched.
double time_us(const Machine& machine, const Replay& replay,
               const std::function<void()>& meanwhile = nullptr);

}  // namespace sk::cuda

#endif  // SK_BENCH_GPU_ROUNDS_H_
