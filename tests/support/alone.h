// A host with one rank, for tests of what joins hosts.
#ifndef SK_TESTS_SUPPORT_ALONE_H_
#define SK_TESTS_SUPPORT_ALONE_H_

#include <sys/mman.h>

#include <cstdlib>
#include <string>

#include "transport/session.h"

namespace sk::testing_support {

// The ranks of a host where there is one: memory, and nothing to reach.
class Alone final : public Endpoint {
 public:
  Alone(uint32_t rank, const SegmentLayout& layout) {
    rank_ = rank;
    layout_ = layout;
    bytes_ = layout.control_bytes() + layout.bytes();
    memory_ = static_cast<std::byte*>(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    own_.control = control_block_at(memory_, layout);
    own_.segment = memory_ + layout.control_bytes();
  }
  ~Alone() override { munmap(memory_, bytes_); }

  Session& session(uint32_t) override { abort_program(); }
  bool mapped() const override { return false; }
  bool gone(uint32_t) override { return false; }
  uint64_t entered_by(uint32_t) const override { return header().entered.load(); }
  Status commit(uint64_t, uint64_t) override { return {}; }
  Status release(uint64_t, uint64_t) override { return {}; }
  Status check() override { return {}; }
  void abort(AbortCause cause, uint32_t rank, const std::string& reason) override {
    if (cause != AbortCause::kPeerLost && cause != AbortCause::kPeerLeft) {
      rank = rank_;
      header().set_reason(reason);
    }
    end_waits(abort_word(cause, rank));
  }
  void end_waits(uint32_t word) override {
    uint32_t none = 0;
    header().abort_word.compare_exchange_strong(none, word);
  }
  Status abort_status() const override {
    return error(SK_ERR_ABORTED, "rank {} has ended it: {}", rank_, header().reason());
  }
  void sleep(uint32_t, int64_t) override {}
  void ring(uint32_t) override {}

 private:
  [[noreturn]] static void abort_program() { std::abort(); }
  std::byte* memory_;
  size_t bytes_;
};

}  // namespace sk::testing_support

#endif  // SK_TESTS_SUPPORT_ALONE_H_
