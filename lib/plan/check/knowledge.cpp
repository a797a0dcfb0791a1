#include "lib/plan/check/knowledge.h"

#include <algorithm>

namespace sk::check {
namespace {

constexpr size_t kClockBytesMax = size_t(1) << 30;  // Of all clocks of a replay.

bool before(const Beyond& a, const Beyond& b) {
  return a.line != b.line ? a.line < b.line : a.first < b.first;
}

}  // namespace

uint32_t Clocks::make() {
  budget_.spend(line_count_ / 8 + 4);
  uint32_t handle = uint32_t(clocks_.size());
  if (!free_.empty()) {
    handle = free_.back();
    free_.pop_back();
  } else {
    if ((clocks_.size() + 1) * line_count_ * sizeof(int32_t) > kClockBytesMax) {
      budget_.spend(UINT64_MAX);  // The caller stops at its next look; this clock is the last.
    }
    clocks_.emplace_back();
  }
  Clock& clock = clocks_[handle];
  clock.owners = 1;
  clock.known.assign(line_count_, 0);
  clock.beyond.clear();
  return handle;
}

void Clocks::drop(uint32_t handle) {
  if (handle != kNone && --clocks_[handle].owners == 0) free_.push_back(handle);
}

Clock& Clocks::own(uint32_t& handle) {
  if (clocks_[handle].owners == 1) return clocks_[handle];
  const uint32_t copy = make();
  Clock &from = clocks_[handle], &to = clocks_[copy];
  std::copy(from.known.begin(), from.known.end(), to.known.begin());
  to.beyond = from.beyond;
  budget_.spend(from.beyond.size());
  --from.owners;
  handle = copy;
  return to;
}

bool Clocks::knows(uint32_t handle, uint32_t line, int32_t event) const {
  const Clock& clock = clocks_[handle];
  if (event < clock.known[line]) return true;
  if (clock.beyond.empty()) return false;
  auto next = std::upper_bound(clock.beyond.begin(), clock.beyond.end(), Beyond{line, event, event},
                               before);
  if (next == clock.beyond.begin()) return false;
  --next;
  return next->line == line && next->first <= event && event < next->last;
}

// Joins ranges that touch, and takes those into the prefix that it has reached.
void Clocks::settle(Clock& clock) {
  size_t kept = 0;
  for (const Beyond range : clock.beyond) {
    int32_t& known = clock.known[range.line];
    if (range.first <= known) {
      known = std::max(known, range.last);
    } else if (kept > 0 && clock.beyond[kept - 1].line == range.line &&
               range.first <= clock.beyond[kept - 1].last) {
      clock.beyond[kept - 1].last = std::max(clock.beyond[kept - 1].last, range.last);
    } else {
      clock.beyond[kept++] = range;
    }
  }
  clock.beyond.resize(kept);
}

void Clocks::raise(uint32_t& handle, uint32_t line, int32_t count) {
  if (clocks_[handle].known[line] >= count) return;
  Clock& clock = own(handle);
  clock.known[line] = count;
  if (!clock.beyond.empty()) settle(clock);
}

void Clocks::learn(uint32_t& handle, uint32_t line, int32_t event) {
  if (knows(handle, line, event)) return;
  Clock& clock = own(handle);
  if (clock.known[line] == event) {
    ++clock.known[line];
  } else {
    const Beyond range{line, event, event + 1};
    clock.beyond.insert(std::upper_bound(clock.beyond.begin(), clock.beyond.end(), range, before),
                        range);
  }
  budget_.spend(clock.beyond.size() + 1);
  if (!clock.beyond.empty()) settle(clock);
}

void Clocks::merge(uint32_t& handle, uint32_t other) {
  if (handle == other) return;
  Clock& clock = own(handle);
  const Clock& from = clocks_[other];
  for (uint32_t i = 0; i < line_count_; ++i) {
    clock.known[i] = std::max(clock.known[i], from.known[i]);
  }
  budget_.spend(line_count_ / 8 + from.beyond.size() + clock.beyond.size() + 1);
  if (!from.beyond.empty()) {
    const size_t middle = clock.beyond.size();
    clock.beyond.insert(clock.beyond.end(), from.beyond.begin(), from.beyond.end());
    std::inplace_merge(clock.beyond.begin(), clock.beyond.begin() + ptrdiff_t(middle),
                       clock.beyond.end(), before);
  }
  if (!clock.beyond.empty()) settle(clock);
}

}  // namespace sk::check
