// One communicator's part of the process's flight record: its last calls, and what all of them came
// to. The rank writes it alone; whoever may read the file sees it without the rank's help, also
// when that is stopped or dead.
#ifndef SK_LIB_RECORD_COMM_RECORD_H_
#define SK_LIB_RECORD_COMM_RECORD_H_

#include <time.h>

#include <string>
#include <utility>
#include <vector>

#include "lib/record/layout.h"
#include "lib/record/process.h"

namespace sk::record {

// What is known before the ranks have met.
struct Meeting {
  std::string job;       // As the launcher names the start; "": none did.
  std::string launcher;  // "": none.
  std::string name;      // The communicator's.
  uint32_t rank = 0, world_size = 1;
  int64_t timeout_ns = 0;
};

class CommRecord {
 public:
  CommRecord() = default;  // Records nothing.
  CommRecord(CommRecord&& other) noexcept { *this = std::move(other); }
  CommRecord& operator=(CommRecord&& other) noexcept;
  ~CommRecord() { reset(); }

  // An error says why nothing is recorded.
  static Result<CommRecord> make(const Settings& settings, const EnvLookup& env,
                                 const Meeting& meeting);

  bool on() const { return area_ != nullptr; }

  // Once the ranks are connected. `comm`: the same on all of them, not 0. `rank`: this one's among
  // them, where some of those that were to meet are lost another than it had. `host_of`: by rank,
  // equal numbers are one host. `far`: what links it to ranks of other hosts.
  void stands(uint64_t comm, int rank, const std::vector<int>& host_of, const char* far);
  // Where others are told for whom a call waits: 1 + the rank, or 0. Null where nothing is
  // recorded.
  std::atomic<uint32_t>* awaited() const { return area_ == nullptr ? nullptr : &area_->awaited; }

  // The line of an operation: `kind` is its name, `text` the call with its sizes.
  uint32_t line(const char* kind, const std::string& text);

  // Around a call.
  void enter(uint32_t line, uint64_t bytes, uint64_t seq) {
    ++number_;
    line_ = line;
    bytes_ = bytes;
    entered_ns_ = now_ns();
    CallRecord& call = area_->calls[number_ % kCalls];
    call.stamp.store(0, std::memory_order_relaxed);
    // With release each, so that none is seen before the stamp is 0.
    call.entered_ns.store(entered_ns_, std::memory_order_release);
    call.seq.store(seq, std::memory_order_release);
    call.bytes.store(bytes, std::memory_order_release);
    call.line.store(line, std::memory_order_release);
    call.stamp.store(stamp(CallState::kEntered), std::memory_order_release);
  }
  void leave(int32_t code) {
    const int64_t now = now_ns();
    CallRecord& call = area_->calls[number_ % kCalls];
    call.left_ns.store(now, std::memory_order_relaxed);
    if (code != 0) [[unlikely]]
      call.code.store(code, std::memory_order_relaxed);
    call.stamp.store(stamp(code == 0 ? CallState::kDone : CallState::kFailed),
                     std::memory_order_release);
    OpLine& line = area_->lines[line_];
    add(line.calls, uint64_t{1});
    if (code == 0) [[likely]]
      add(line.bytes, bytes_);
    else
      add(line.failures, uint64_t{1});
    if (now != entered_ns_) add(line.ns, now - entered_ns_);
  }
  // No call can succeed any more. The first reason counts.
  void over(int32_t code, const std::string& sentence);

  // In a forked child: the memory is its parent's.
  void forget() { area_ = nullptr; }

 private:
  // Of some nanoseconds, where the exact clock takes as long as the rest of a record together: sums
  // of many short calls come out right, for each has a tick in it as often as it is long.
  static int64_t now_ns() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    return int64_t(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
  }
  uint64_t stamp(CallState state) const { return number_ << 2 | uint64_t(state); }
  // One thread writes.
  template <typename Number>
  static void add(std::atomic<Number>& total, Number more) {
    total.store(total.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }
  void reset();

  Area* area_ = nullptr;
  uint64_t number_ = 0;  // Of the last call.
  uint64_t bytes_ = 0;
  int64_t entered_ns_ = 0;
  uint32_t line_ = 0;
};

}  // namespace sk::record

#endif  // SK_LIB_RECORD_COMM_RECORD_H_
