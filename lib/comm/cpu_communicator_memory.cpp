// Memory that all ranks know of, and packed weights: made and given back by agreement.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>

#include "lib/comm/cpu_communicator.h"
#include "lib/comm/limits.h"
#include "lib/op/ops/memory.h"

namespace sk {
namespace {

constexpr uint64_t kPage = 4096;
constexpr int64_t kLookNs = 200'000;  // Between two looks at a peer.

}  // namespace

Status CpuCommunicator::agree(OpKind kind, uint64_t bytes, bool able) {
  forget_calls();  // Where memory lies is about to change.
  const OpDesc op = memory_call(kind, bytes);
  if (!able) return decline(op, timeout_ns_, SK_ERR_NO_MEMORY);
  Result<std::shared_ptr<Ready>> ready = caught([&] { return ready_for(op); });
  if (!ready.ok()) {
    SK_RETURN_IF_ERROR(decline(op, timeout_ns_, ready.status().code()));
    return std::move(ready.status());
  }
  RunArgs args;
  args.timeout_ns = timeout_ns_;
  return run(*(*ready)->program, args);
}

Result<void*> CpuCommunicator::allocate(uint64_t bytes) {
  Result<void*> memory = caught([&] { return heap_->allocate(bytes); });
  Status agreed = agree(OpKind::kAlloc, bytes, memory.ok());
  if (!memory.ok()) {
    SK_RETURN_IF_ERROR(std::move(agreed));  // Then the communicator has ended, and that is said.
    return std::move(memory.status());
  }
  if (!agreed.ok()) {
    SK_RETURN_IF_ERROR(heap_->free(*memory));
    return agreed;
  }
  log_.debug("sk_alloc({}): {} bytes are held", bytes, heap_->bytes_held());
  return memory;
}

Status CpuCommunicator::free(void* memory) {
  SK_ASSIGN_OR_RETURN(const uint64_t bytes, heap_->size_of(memory));
  // Behind the exchange no peer is in a call that could still touch it.
  SK_RETURN_IF_ERROR(agree(OpKind::kFree, bytes, true));
  return heap_->free(memory);
}

Status CpuCommunicator::register_memory(void* memory, uint64_t bytes) {
  if (!one_process_) {
    return error(SK_ERR_UNSUPPORTED,
                 "memory of another process cannot be mapped afterwards; take it from sk_alloc(), "
                 "or pass it as it is and it is staged");
  }
  Status added = caught([&] { return heap_->add_registered(memory, bytes); });
  if (!added.ok() && added.code() != SK_ERR_NO_MEMORY) return added;
  Status agreed = agree(OpKind::kRegister, bytes, added.ok());
  if (!added.ok()) {
    SK_RETURN_IF_ERROR(std::move(agreed));
    return added;
  }
  if (!agreed.ok()) heap_->remove_registered(memory);
  return agreed;
}

Status CpuCommunicator::deregister_memory(void* memory) {
  SK_ASSIGN_OR_RETURN(const uint64_t bytes, heap_->registered_size(memory));
  Status agreed = agree(OpKind::kDeregister, bytes, true);
  if (!agreed.ok()) {
    if (over().ok()) return agreed;
    SK_RETURN_IF_ERROR(await_peers_outside());
  }
  heap_->remove_registered(memory);
  return agreed;
}

Result<std::unique_ptr<Packed>> CpuCommunicator::pack(const PackArgs& args) const {
  const auto [dtype, b, ldb, k, n, transpose_b] = args;
  // What plans say of it: as much as the ranks' largest layout takes.
  const GemmTiles tiles = backend_.gemm_tiles(dtype, 1, n, k, 1, kernel_sets_);
  const uint64_t bytes = align_up(std::max<uint64_t>(1, tiles.packed_bytes), kPage);
  auto* data = static_cast<std::byte*>(std::aligned_alloc(kPage, bytes));
  if (data == nullptr) return error(SK_ERR_NO_MEMORY, "no memory to pack b of {} x {}", k, n);
  advise_huge_pages(data, bytes);
  backend_.pack(dtype, b, ldb, transpose_b, k, n, data);
  return std::make_unique<Packed>(
      Packed{device(), dtype, k, n, std::shared_ptr<void>(data, std::free)});
}

// Abort words are written one after the other: a peer whose own is not yet set may still begin what
// this rank had entered, so they are all set first.
Status CpuCommunicator::await_peers_outside() {
  endpoint_->abort(AbortCause::kAborted, rank(), "it frees memory that was registered");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout_ns_);
  for (uint32_t peer = 0; peer < world_size(); ++peer) {
    const MappedView* view = endpoint_->session(peer).mapped();
    if (peer == rank() || view == nullptr) continue;
    RankHeader& header = *view->control.header;
    // Read by writing: a peer that enters after this look sees the abort words set before it.
    while (header.inside.fetch_or(0, std::memory_order_acq_rel) != 0) {
      if (std::chrono::steady_clock::now() > deadline) {
        return error(SK_ERR_TIMEOUT,
                     "rank {} is inside a call {:.1f} s after the communicator has ended, and may "
                     "still use memory that was registered here",
                     peer, double(timeout_ns_) * 1e-9);
      }
      endpoint_->sleep(endpoint_->header().doorbell.load(std::memory_order_acquire), kLookNs);
    }
  }
  return {};
}

Status CpuCommunicator::prepare_to_end() {
  if (over().ok()) return endpoint_->drain(timeout_ns_);
  // What has succeeded is over at the peers, too.
  return heap_->has_registered() ? await_peers_outside() : Status();
}

}  // namespace sk
