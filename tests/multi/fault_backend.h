// The C shell over other backends than its own: linked in the place of lib/api/backends.cpp, so
// that whole communicators run over sessions that are as unkind as their contract allows, or with
// an executor that has a bug on purpose.
#ifndef SK_TESTS_MULTI_FAULT_BACKEND_H_
#define SK_TESTS_MULTI_FAULT_BACKEND_H_

#include <functional>
#include <memory>

#include "lib/comm/gemm_tiles.h"
#include "lib/exec/executor.h"
#include "transport/fault/fault.h"

namespace sk::testing_ops {

using Decorate =
    std::function<std::unique_ptr<Executor>(std::unique_ptr<Executor> sound, Ledger& ledger)>;

// What communicators are made of from now on; none may be alive. Null: plain shared memory, the CPU
// executor as it is.
void use_backend(std::shared_ptr<FaultNetwork> network, Decorate decorate = nullptr);

// The same over TCP: of hosts with so many ranks each.
void use_hosts(int ranks_per_host);

// What machines say they have left from now on; UINT64_MAX: the truth.
void use_memory_left(uint64_t bytes);

// What the calling thread's ranks make of the tiles of a product, from now on; null: as they are.
void use_tiles(std::function<void(GemmTiles&)> change);

}  // namespace sk::testing_ops

#endif  // SK_TESTS_MULTI_FAULT_BACKEND_H_
