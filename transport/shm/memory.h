// Memory that processes of a host share: one memfd, which has no name and so leaves nothing behind.
//
// The file is as long as it will ever be from the start, but sparse; commit() takes memory with
// fallocate(), so that a full memory is an error there and never a SIGBUS later. The size is
// sealed: a peer cannot cut it short under us.
#ifndef SK_TRANSPORT_SHM_MEMORY_H_
#define SK_TRANSPORT_SHM_MEMORY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "lib/base/status.h"
#include "transport/shm/fd.h"

namespace sk::shm {

// 128 random bits.
using Secret = std::array<unsigned char, 16>;
Result<Secret> random_secret();

class SharedMemory {
 public:
  enum class Pages {
    kSmall,
    kHuge,  // Where the kernel gives shared memory any.
  };

  // Nothing of it is committed. `bytes`: a multiple of 4096.
  static Result<std::shared_ptr<SharedMemory>> create(uint64_t bytes, Pages pages);
  // A peer's, from the descriptor that it has sent. The mapping holds the memory: unless
  // `keep_descriptor`, that is closed, and nothing can be committed here.
  static Result<std::shared_ptr<SharedMemory>> attach(Fd fd, uint64_t bytes, Pages pages,
                                                      bool keep_descriptor = false);

  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  std::byte* base() const { return base_; }
  int fd() const { return fd_.get(); }
  void close_descriptor() { fd_.reset(); }

  // Multiples of 4096 inside of it. A range that is not committed reads as zero once it is.
  Status commit(uint64_t offset, uint64_t bytes);
  Status release(uint64_t offset, uint64_t bytes);

 private:
  SharedMemory(Fd fd, std::byte* base, uint64_t bytes)
      : fd_(std::move(fd)), base_(base), bytes_(bytes) {}
  static Result<std::shared_ptr<SharedMemory>> map(Fd fd, uint64_t bytes, Pages pages);
  Status check_range(const char* what, uint64_t offset, uint64_t bytes) const;

  Fd fd_;
  std::byte* base_;
  uint64_t bytes_;
};

}  // namespace sk::shm

#endif  // SK_TRANSPORT_SHM_MEMORY_H_
