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

#include "tests/devhost/engine.h"

namespace sk::devhost {

inline constexpr uint32_t kLanes = 32;

// Meets `count` threads at a time, again and again.
class Rendezvous {
 public:
  void meet(uint32_t count);

 private:
  std::atomic<uint32_t> arrived_{0}, generation_{0};
};

// A copy that a warp has begun.
struct Copy {
  std::byte* to;
  const std::byte* from;
  uint32_t bytes, size;  // Read, and written: the rest is zero.
};

struct Cluster;
struct Block {
  uint32_t index, blocks;
  std::byte* shared;
  Rendezvous barriers[16];
  uint32_t warps;
  Cluster* cluster;
  uint32_t place;                 // In it.
  std::atomic<uint32_t> running;  // Warps that have not ended.

  // Ends the process where the block has ended: its shared memory may be another block's by then.
  void must_be_there(const char* what) const;
};
struct Cluster {
  std::vector<Block*> blocks;
  Rendezvous barrier;
  std::atomic<uint32_t> early_posts{0};  // Of tasks, with planted.own_share_only.
};

// What a warp's thread knows of itself.
struct Warp {
  Block* block;
  uint32_t index;
  // Work of the engine, begun and committed, oldest first: copies, products, stores.
  std::vector<Copy> copies;
  std::vector<std::shared_ptr<Job>> copy_groups;
  std::vector<std::function<void()>> products;
  std::vector<std::shared_ptr<Job>> product_groups;
  std::vector<Copy> rows;
  std::vector<std::shared_ptr<Job>> store_reads, store_writes;
  std::vector<std::shared_ptr<Job>> told;  // Arrivals in blocks of the cluster.
  uint32_t meetings = 0;                   // Of the cluster, that it has waited for.
};
Warp& this_warp();

// Until at most `pending` of `groups` are not done.
void wait_groups(std::vector<std::shared_ptr<Job>>& groups, size_t pending);

// Runs `kernel` on `blocks` blocks of `threads` threads with so much shared memory, poisoned, in
// clusters of `cluster_blocks`; returns when all have ended. Several launches may run at once.
void launch(uint32_t blocks, uint32_t threads, size_t shared_bytes,
            const std::function<void()>& kernel, uint32_t cluster_blocks = 1);

}  // namespace sk::devhost

#endif  // SK_TESTS_DEVHOST_MACHINE_H_
