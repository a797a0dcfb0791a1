#include "tests/devhost/machine.h"

#include <cstdio>
#include <cstdlib>
#include <thread>

namespace sk::devhost {
namespace {

thread_local Warp* t_warp = nullptr;

}  // namespace

void Rendezvous::meet(uint32_t count) {
  const uint32_t generation = generation_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == count) {
    arrived_.store(0, std::memory_order_relaxed);
    generation_.store(generation + 1, std::memory_order_release);
    generation_.notify_all();
    return;
  }
  generation_.wait(generation, std::memory_order_acquire);
}

void Block::must_be_there(const char* what) const {
  if (running.load(std::memory_order_relaxed) != 0) return;
  std::fprintf(stderr, "noticed: %s in the shared memory of block %u, which has ended\n", what,
               index);
  std::_Exit(1);
}

Warp& this_warp() { return *t_warp; }

void wait_groups(std::vector<std::shared_ptr<Job>>& groups, size_t pending) {
  while (groups.size() > pending) {
    Engine::get().wait(*groups.front());
    groups.erase(groups.begin());
  }
}

void launch(uint32_t blocks, uint32_t threads, size_t shared_bytes,
            const std::function<void()>& kernel, uint32_t cluster_blocks) {
  constexpr size_t kAlign = 1024;
  std::vector<std::unique_ptr<Block>> all;
  std::vector<std::unique_ptr<Cluster>> clusters;
  std::vector<std::vector<std::byte>> shared;
  std::vector<std::thread> warps;
  for (uint32_t index = 0; index < blocks; ++index) {
    shared.emplace_back(shared_bytes + kAlign, std::byte{0xcd});
    const size_t beyond = reinterpret_cast<uintptr_t>(shared.back().data()) % kAlign;
    all.push_back(std::make_unique<Block>());
    all.back()->index = index;
    all.back()->blocks = blocks;
    all.back()->shared = shared.back().data() + (kAlign - beyond) % kAlign;
    all.back()->warps = threads / kLanes;
    all.back()->running = threads / kLanes;
    all.back()->place = index % cluster_blocks;
    if (all.back()->place == 0) clusters.push_back(std::make_unique<Cluster>());
    all.back()->cluster = clusters.back().get();
    clusters.back()->blocks.push_back(all.back().get());
  }
  for (const std::unique_ptr<Block>& block : all) {
    for (uint32_t index = 0; index < block->warps; ++index) {
      warps.emplace_back([&kernel, block = block.get(), index] {
        Warp warp;
        warp.block = block;
        warp.index = index;
        t_warp = &warp;
        kernel();
        block->running.fetch_sub(1, std::memory_order_relaxed);
        wait_groups(warp.copy_groups, 0);
        wait_groups(warp.product_groups, 0);
        wait_groups(warp.store_reads, 0);
        wait_groups(warp.store_writes, 0);
        wait_groups(warp.told, 0);
        t_warp = nullptr;
      });
    }
  }
  for (std::thread& warp : warps) warp.join();
}

}  // namespace sk::devhost
