// How much memory could still be taken: asked before much is, since the kernel answers too much by
// killing processes rather than by an error.
#ifndef SK_LIB_BASE_MEMORY_LIMIT_H_
#define SK_LIB_BASE_MEMORY_LIMIT_H_

#include <cstdint>
#include <string>

namespace sk {

// Bytes left; page cache counts as left. UINT64_MAX where nothing can be read.
struct MemoryRoom {
  uint64_t machine = UINT64_MAX;
  uint64_t group = UINT64_MAX;  // In that control group of this process which has least.
  std::string group_limit;      // The file that holds this group's limit; empty without one.
};

// `root` is "" but in tests.
MemoryRoom memory_room(const std::string& root);

// The least of it.
uint64_t memory_available(const std::string& root);

}  // namespace sk

#endif  // SK_LIB_BASE_MEMORY_LIMIT_H_
