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

bool Clocks::beyond(const Clock& clock, uint32_t line, int32_t event) {
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
  } else if (telling_ == Telling::kAll) {
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

void Clocks::hear(uint32_t& handle, uint32_t other, uint32_t from, uint32_t to) {
  if (whole(from, to)) return merge(handle, other);
  int32_t* known = own(handle).known.data();
  const int32_t* more = clocks_[other].known.data();
  uint64_t steps = 2;
  for (const LineRange range : told(from, to)) {
    for (uint32_t i = range.first; i < range.last; ++i) known[i] = std::max(known[i], more[i]);
    steps += (range.last - range.first) / 8;
  }
  budget_.spend(steps);
}

uint32_t Clocks::note(uint32_t handle, uint32_t from, uint32_t to) {
  if (whole(from, to)) return share(handle);
  const uint32_t first = uint32_t(notes_.size());
  const std::array<LineRange, 4> ranges = told(from, to);
  size_t size = first;
  for (const LineRange range : ranges) size += range.last - range.first;
  notes_.resize(size);
  const int32_t* known = clocks_[handle].known.data();
  int32_t* at = notes_.data() + first;
  for (const LineRange range : ranges) {
    for (uint32_t i = range.first; i < range.last; ++i) *at++ = known[i];
  }
  budget_.spend((notes_.size() - first) / 8 + 2);
  if (notes_.size() * sizeof(int32_t) > kClockBytesMax) budget_.spend(UINT64_MAX);
  return first;
}

void Clocks::hear_note(uint32_t& handle, uint32_t note, uint32_t from, uint32_t to) {
  if (whole(from, to)) return merge(handle, note);
  int32_t* known = own(handle).known.data();
  const int32_t* more = notes_.data() + note;
  for (const LineRange range : told(from, to)) {
    for (uint32_t i = range.first; i < range.last; ++i, ++more)
      known[i] = std::max(known[i], *more);
  }
  budget_.spend(4);
}

void Clocks::drop_note(uint32_t note, uint32_t from, uint32_t to) {
  if (whole(from, to)) drop(note);
}

}  // namespace sk::check
