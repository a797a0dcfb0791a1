#include "tests/multi/fault_backend.h"

#include <atomic>
#include <utility>

#include "lib/api/objects.h"
#include "lib/exec/cpu/executor.h"
#include "tests/support/apart.h"
#include "transport/shm/shm.h"

namespace sk::testing_ops {
namespace {

struct Chosen {
  std::shared_ptr<FaultNetwork> network;
  Decorate decorate;
  int ranks_per_host = 0;  // 0: all are on this one.
};

Chosen& chosen() {
  static Chosen one;
  return one;
}

thread_local std::function<void(GemmTiles&)> tiles_of_thread;

Result<std::unique_ptr<Endpoint>> connect(Bootstrap& bootstrap, const SegmentLayout& layout,
                                          int64_t timeout_ns, bool put_only) {
  if (const int each = chosen().ranks_per_host; each != 0)
    return testing_support::connect_apart(bootstrap, layout, each, timeout_ns);
  const std::shared_ptr<FaultNetwork> network = chosen().network;
  // Below the network the transport stays as it is: its sessions are in order, so puts are cut.
  SK_ASSIGN_OR_RETURN(std::unique_ptr<Endpoint> endpoint,
                      connect_shm(bootstrap, layout,
                                  {.timeout_ns = timeout_ns, .hide_mapped = put_only && !network}));
  if (network == nullptr) return endpoint;
  return network->wrap(std::move(endpoint));
}

std::unique_ptr<Executor> make_executor(Endpoint& endpoint, Ledger& ledger, uint32_t workers,
                                        bool shared_cores) {
  std::unique_ptr<Executor> sound =
      cpu::make_cpu_executor(endpoint, ledger, {.workers = workers, .shared_cores = shared_cores});
  return chosen().decorate ? chosen().decorate(std::move(sound), ledger) : std::move(sound);
}

GemmTiles gemm_tiles(DType dtype, int64_t m, int64_t n, int64_t k, uint32_t parts,
                     uint32_t kernel_sets) {
  const cpu::GemmTarget target = cpu::gemm_target(dtype, m, n, k, parts, kernel_sets);
  GemmTiles tiles{target.tile_m, target.tile_n, target.packed_bytes};
  if (tiles_of_thread) tiles_of_thread(tiles);
  return tiles;
}

std::atomic<uint64_t> left_for_test{UINT64_MAX};

MemoryRoom memory_left() {
  MemoryRoom room = memory_room("");
  const uint64_t left = left_for_test;
  if (left != UINT64_MAX) room = {.machine = left, .group = UINT64_MAX, .group_limit = ""};
  return room;
}

}  // namespace

void use_memory_left(uint64_t bytes) { left_for_test = bytes; }

void use_backend(std::shared_ptr<FaultNetwork> network, Decorate decorate) {
  chosen() = {.network = std::move(network), .decorate = std::move(decorate)};
}

void use_hosts(int ranks_per_host) {
  chosen() = {.network = nullptr, .decorate = nullptr, .ranks_per_host = ranks_per_host};
}

void use_tiles(std::function<void(GemmTiles&)> change) { tiles_of_thread = std::move(change); }

}  // namespace sk::testing_ops

namespace sk::api {

// The linker takes this one, so lib/api/backends.cpp stays out of the program.
const Backend& backend() {
  static const Backend all = {.check = cpu::check_environment,
                              .connect = testing_ops::connect,
                              .make_executor = testing_ops::make_executor,
                              // Half as much again: room for a planted bug (planted.cc).
                              .staging_bytes = cpu::staging_bytes() * 3 / 2,
                              .memory_room = testing_ops::memory_left,
                              .kernel_set = cpu::kernel_set,
                              .gemm_tiles = testing_ops::gemm_tiles,
                              .pack = cpu::pack_weights,
                              .open_gpu = nullptr};
  return all;
}

}  // namespace sk::api
