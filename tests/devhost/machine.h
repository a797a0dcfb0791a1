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
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "tests/devhost/engine.h"

namespace sk::devhost {

inline constexpr uint32_t kLanes = 32;

// Unwinds a warp of a launch that has trapped.
struct Trapped : std::exception {};

// Meets `count` threads at a time, again and again.
class Rendezvous {
 public:
  // Throws Trapped once the launch has trapped: not all will come.
  void meet(uint32_t count);
  void give_up();

 private:
  static constexpr uint32_t kGivenUp = 1u << 31;
  std::atomic<uint32_t> arrived_{0}, generation_{0};
};

// A copy that a warp has begun.
struct Copy {
  std::byte* to;
  const std::byte* from;
  uint32_t bytes, size;  // Read, and written: the rest is zero.
};

struct Cluster;
struct Block;
// What all blocks of a launch have in common.
struct Grid {
  std::vector<std::unique_ptr<Block>> blocks;
  std::vector<std::unique_ptr<Cluster>> clusters;
  std::atomic<bool> trapped{false};
};
struct Block {
  Grid* grid;
  uint32_t index, blocks;
  std::byte* shared;
  alignas(64) std::byte beside[2048];  // Shared memory that is not the launch's.
  Rendezvous barriers[16];
  uint32_t warps;
  Cluster* cluster;
  uint32_t place;                 // In it.
  std::atomic<uint32_t> running;  // Warps that have not ended.
  // By warp: the word that it sleeps at, of which only the parity says anything.
  std::atomic<std::atomic<uint32_t>*> sleeps[16]{};

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
  // Work of the engine, begun and committed, oldest first: copies, products.
  std::vector<Copy> copies;
  std::vector<std::shared_ptr<Job>> copy_groups;
  std::vector<std::function<void()>> products;
  std::vector<std::shared_ptr<Job>> product_groups;
  std::vector<std::shared_ptr<Job>> told;  // Arrivals in blocks of the cluster.
  uint32_t meetings = 0;                   // Of the cluster, that it has waited for.
};
Warp& this_warp();
// Ends the launch: this warp now, others at their next wait, or in the one they are in.
[[noreturn]] void trap();
void leave_if_trapped();

// A warp is about to sleep until `word` changes; wakes it once the launch has trapped.
class Sleep {
 public:
  explicit Sleep(std::atomic<uint32_t>& word);
  ~Sleep();
  Sleep(const Sleep&) = delete;
  Sleep& operator=(const Sleep&) = delete;
};

// Until at most `pending` of `groups` are not done.
void wait_groups(std::vector<std::shared_ptr<Job>>& groups, size_t pending);

// Runs `kernel` on `blocks` blocks of `threads` threads with so much shared memory, poisoned, in
// clusters of `cluster_blocks`; returns when all have ended: whether they did so without a trap.
// Several launches may run at once.
bool launch(uint32_t blocks, uint32_t threads, size_t shared_bytes,
            const std::function<void()>& kernel, uint32_t cluster_blocks = 1);

}  // namespace sk::devhost

#endif  // SK_TESTS_DEVHOST_MACHINE_H_
