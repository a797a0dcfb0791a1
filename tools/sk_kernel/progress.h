// What a long step of a command does and how long it has taken, for whoever waits.
#ifndef SK_TOOLS_SK_KERNEL_PROGRESS_H_
#define SK_TOOLS_SK_KERNEL_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace sk::kernel {

// On a terminal one line that is written anew; elsewhere a line for each step, and now and then.
class Progress {
 public:
  // Time counts from here. `out` outlives this.
  explicit Progress(std::FILE* out);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // What is being done from now on.
  void step(std::string_view what);
  // Called about once a second.
  void tick();

 private:
  int64_t seconds() const;
  void show();

  std::FILE* const out_;
  const bool is_terminal_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  int64_t shown_s_ = 0;
  std::string step_;
};

}  // namespace sk::kernel

#endif  // SK_TOOLS_SK_KERNEL_PROGRESS_H_
