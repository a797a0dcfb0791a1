// How much memory could still be taken: asked before a large commit, since the kernel answers one
// that is too large by killing processes rather than by an error.
#ifndef SK_TRANSPORT_SHM_MEMORY_LIMIT_H_
#define SK_TRANSPORT_SHM_MEMORY_LIMIT_H_

#include <cstdint>
#include <string>

namespace sk::shm {

// Bytes that the machine, and the control groups of this process, have left; page cache counts as
// left. UINT64_MAX where nothing can be read. `root` is "" but in tests.
uint64_t memory_available(const std::string& root);

}  // namespace sk::shm

#endif  // SK_TRANSPORT_SHM_MEMORY_LIMIT_H_
