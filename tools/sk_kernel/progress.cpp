#include "tools/sk_kernel/progress.h"

#include <fmt/format.h>
#include <unistd.h>

namespace sk::kernel {
namespace {

constexpr int64_t kQuietS = 30;  // Without a terminal the longest time between two lines.

}  // namespace

Progress::Progress(std::FILE* out) : out_(out), is_terminal_(isatty(fileno(out)) == 1) {}

Progress::~Progress() {
  if (!is_terminal_) return;
  std::fputs("\r\x1b[K", out_);
  std::fflush(out_);
}

void Progress::step(std::string_view what) {
  step_ = what;
  show();
}

void Progress::tick() {
  if (step_.empty() || seconds() < shown_s_ + (is_terminal_ ? 1 : kQuietS)) return;
  show();
}

int64_t Progress::seconds() const {
  using std::chrono::steady_clock;
  return std::chrono::duration_cast<std::chrono::seconds>(steady_clock::now() - begin_).count();
}

void Progress::show() {
  shown_s_ = seconds();
  const std::string line = fmt::format("{}:{:02} {}", shown_s_ / 60, shown_s_ % 60, step_);
  std::fputs((is_terminal_ ? "\r\x1b[K" + line : "  " + line + "\n").c_str(), out_);
  std::fflush(out_);
}

}  // namespace sk::kernel
