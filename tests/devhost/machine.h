// A machine that runs device code on the CPU: one thread per warp, blocks side by side, barriers
// that block, and copies that are done late, in any order, by somebody else.
//
// It promises no more than a GPU does. What a GPU may do late is done late here, and what it may
// reorder is reordered; ThreadSanitizer sees every access that no barrier, signal or wait orders.
#ifndef SK_TESTS_DEVHOST_MACHINE_H_
#define SK_TESTS_DEVHOST_MACHINE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace sk::devhost {

inline constexpr uint32_t kLanes = 32;

// Meets `count` threads at a time, again and again.
class Rendezvous {
 public:
  void meet(uint32_t count);

 private:
  std::atomic<uint32_t> arrived_{0}, generation_{0};
};

// Copies that a warp has begun and not yet waited for.
struct Copy {
  std::byte* to;
  const std::byte* from;
  uint32_t bytes, size;  // Read, and written: the rest is zero.
};
struct CopyGroup {
  std::vector<Copy> copies;
  std::atomic<bool> done{false};
  std::atomic<bool> wanted{false};
};

struct Block {
  uint32_t index;
  std::byte* shared;
  Rendezvous barriers[16];
  uint32_t warps;
};

// What a warp's thread knows of itself.
struct Warp {
  Block* block;
  uint32_t index;
  std::vector<Copy> begun;
  std::vector<std::shared_ptr<CopyGroup>> groups;  // Oldest first.
};
Warp& this_warp();

void commit_copies();
void wait_copies(uint32_t pending);

// Runs `kernel` on `blocks` blocks of `threads` threads with so much shared memory, poisoned;
// returns when all have ended. Several launches may run at once.
void launch(uint32_t blocks, uint32_t threads, size_t shared_bytes,
            const std::function<void()>& kernel);

}  // namespace sk::devhost

#endif  // SK_TESTS_DEVHOST_MACHINE_H_
