// A rank's segment in shared memory: one memfd, which has no name and so leaves nothing behind.
//
// The file is as long as the layout from the start, but sparse; commit() takes memory with
// fallocate(), so that a full memory is an error there and never a SIGBUS later. The size is
// sealed: a peer cannot cut it short under us.
#ifndef SK_TRANSPORT_SHM_SEGMENT_H_
#define SK_TRANSPORT_SHM_SEGMENT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "lib/base/status.h"
#include "transport/session.h"
#include "transport/shm/fd.h"

namespace sk::shm {

// 128 random bits.
using Secret = std::array<unsigned char, 16>;
Result<Secret> random_secret();

class Segment {
 public:
  // The own one: header, entry slots and signals are committed and zero.
  static Result<std::shared_ptr<Segment>> create(const SegmentLayout& layout);
  // A peer's, from the descriptor that it has sent.
  static Result<std::shared_ptr<Segment>> attach(Fd fd, const SegmentLayout& layout);

  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment();

  std::byte* base() const { return base_; }
  SegmentHeader& header() const { return *reinterpret_cast<SegmentHeader*>(base_); }
  int fd() const { return fd_.get(); }

  // Multiples of 4096 inside the segment. A range that is not committed reads as zero once it is.
  Status commit(uint64_t offset, uint64_t bytes);
  Status release(uint64_t offset, uint64_t bytes);

 private:
  Segment(Fd fd, std::byte* base, uint64_t bytes)
      : fd_(std::move(fd)), base_(base), bytes_(bytes) {}
  static Result<std::shared_ptr<Segment>> map(Fd fd, const SegmentLayout& layout);
  Status check_range(const char* what, uint64_t offset, uint64_t bytes) const;

  Fd fd_;
  std::byte* base_;
  uint64_t bytes_;
};

// Ranks that are threads of one process share the owner's mapping: while they connect, it can be
// found here by its secret. A forked child finds none of its parent's.
class Published {
 public:
  Published(const Secret& secret, const std::shared_ptr<Segment>& segment);
  ~Published();
  Published(const Published&) = delete;
  Published& operator=(const Published&) = delete;

  static std::shared_ptr<Segment> find(const Secret& secret);

 private:
  Secret secret_;
};

}  // namespace sk::shm

#endif  // SK_TRANSPORT_SHM_SEGMENT_H_
