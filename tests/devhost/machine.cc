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
  if (generation & kGivenUp) throw Trapped();
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == count) {
    arrived_.store(0, std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
    return;
  }
  generation_.wait(generation, std::memory_order_acquire);
  if (generation_.load(std::memory_order_acquire) & kGivenUp) throw Trapped();
}

void Rendezvous::give_up() {
  generation_.fetch_or(kGivenUp, std::memory_order_release);
  generation_.notify_all();
}

void Block::must_be_there(const char* what) const {
  if (running.load(std::memory_order_relaxed) != 0) return;
  std::fprintf(stderr, "noticed: %s in the shared memory of block %u, which has ended\n", what,
               index);
  std::_Exit(1);
}

Warp& this_warp() { return *t_warp; }

void trap() {
  Grid& grid = *t_warp->block->grid;
  grid.trapped.store(true);  // Before the words are looked at: whoever comes later looks at it.
  for (const auto& block : grid.blocks) {
    for (Rendezvous& barrier : block->barriers) barrier.give_up();
    for (auto& sleeps : block->sleeps) {
      std::atomic<uint32_t>* const word = sleeps.load();
      if (word == nullptr) continue;
      word->fetch_add(2);
      word->notify_all();
    }
  }
  for (const auto& cluster : grid.clusters) cluster->barrier.give_up();
  throw Trapped();
}

void leave_if_trapped() {
  if (t_warp->block->grid->trapped.load()) throw Trapped();
}

Sleep::Sleep(std::atomic<uint32_t>& word) {
  t_warp->block->sleeps[t_warp->index].store(&word);
  if (!t_warp->block->grid->trapped.load()) return;
  t_warp->block->sleeps[t_warp->index].store(nullptr);
  throw Trapped();
}
Sleep::~Sleep() { t_warp->block->sleeps[t_warp->index].store(nullptr); }

void wait_groups(std::vector<std::shared_ptr<Job>>& groups, size_t pending) {
  while (groups.size() > pending) {
    Engine::get().wait(*groups.front());
    groups.erase(groups.begin());
  }
}

bool launch(uint32_t blocks, uint32_t threads, size_t shared_bytes,
            const std::function<void()>& kernel, uint32_t cluster_blocks) {
  constexpr size_t kAlign = 1024;
  Grid grid;
  auto& [all, clusters, trapped] = grid;
  std::vector<std::vector<std::byte>> shared;
  std::vector<std::thread> warps;
  for (uint32_t index = 0; index < blocks; ++index) {
    shared.emplace_back(shared_bytes + kAlign, std::byte{0xcd});
    const size_t beyond = reinterpret_cast<uintptr_t>(shared.back().data()) % kAlign;
    all.push_back(std::make_unique<Block>());
    all.back()->grid = &grid;
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
        try {
          kernel();
        } catch (const Trapped&) {  // NOLINT(bugprone-empty-catch) This warp does no more.
        }
        block->running.fetch_sub(1, std::memory_order_relaxed);
        wait_groups(warp.copy_groups, 0);
        wait_groups(warp.product_groups, 0);
        wait_groups(warp.told, 0);
        t_warp = nullptr;
      });
    }
  }
  for (std::thread& warp : warps) warp.join();
  if (!trapped) return true;
  Engine::get().settle();  // What nobody waits for any more touches memory that is freed here.
  return false;
}

}  // namespace sk::devhost
