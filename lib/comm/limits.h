// What the machine offers, and the sizes at which one form of a plan beats another on it.
#ifndef SK_LIB_COMM_LIMITS_H_
#define SK_LIB_COMM_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "lib/plan/plan.h"

namespace sk {

uint64_t memory_bytes();  // Of the machine.
uint32_t usable_cores();  // That this process may run on.

// Sets the sizes in `target` that depend on world size and cores.
void tune(Target& target);

// Asks for huge pages where that is worth a call; failing is harmless.
void advise_huge_pages(std::byte* data, uint64_t bytes);

}  // namespace sk

#endif  // SK_LIB_COMM_LIMITS_H_
