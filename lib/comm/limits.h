// What the machine offers, and the sizes at which one form of a plan beats another on it.
#ifndef SK_LIB_COMM_LIMITS_H_
#define SK_LIB_COMM_LIMITS_H_

#include <bitset>
#include <cstddef>
#include <cstdint>

#include "lib/base/workers.h"
#include "lib/plan/plan.h"

namespace sk {

uint64_t memory_bytes();  // Of the machine.
// How much of its address space this process may give to each of so many segments, half of what
// there is and of what its limits leave (ulimit -v and -f).
uint64_t reservable_bytes(uint32_t segments);

// The CPUs that this process may run on, as bits; CPUs beyond the set are not known.
using CpuMask = std::bitset<1024>;
CpuMask usable_cpus();

// What an environment variable asks for, where the caller's own number is 0: SK_WORKERS.
Result<uint32_t> workers_from_environment();

// Of the last cache, as far as one core complex shares it.
uint64_t shared_cache_bytes();

// Sets the sizes in `target` that depend on world size, workers and cores.
void tune(Target& target, uint64_t cache_bytes);

// Asks for huge pages where that is worth a call; failing is harmless.
void advise_huge_pages(std::byte* data, uint64_t bytes);

}  // namespace sk

#endif  // SK_LIB_COMM_LIMITS_H_
