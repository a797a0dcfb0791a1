#include "lib/api/guard.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "lib/base/inside_tile.h"

namespace sk::api {
namespace {

// Room for one page that a forked child finds zeroed: a Here. The library's own, so that it goes
// with it; without contents in the file, hence anonymous memory, of which alone the kernel lets a
// page be wiped.
constexpr size_t kPageBytesMax = 65'536;
constinit std::byte fork_room[2 * kPageBytesMax] = {};
constinit std::atomic<uint32_t*> fork_page{nullptr};

enum Here : uint32_t {
  kForked = 0,  // In a child of a process that had called sk_init().
  kFirst = 1,   // sk_init() was called here, and nowhere before.
  kComing = 2,  // Such a child is inside its first sk_init().
  kAgain = 3,   // And has been.
};

std::atomic_ref<uint32_t> here(uint32_t* page) { return std::atomic_ref(*page); }

// What a child has begun anew, its parent's handles left behind.
void begin_again(uint32_t* page, void (*forget)()) {
  uint32_t before = kForked;
  if (here(page).compare_exchange_strong(before, kComing, std::memory_order_acquire)) {
    forget();
    here(page).store(kAgain, std::memory_order_release);
  }
  // Not a yield: whoever is inside may have a lower priority, and this thread its core.
  while (here(page).load(std::memory_order_acquire) == kComing)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
}

Status forked() {
  return error(SK_ERR_FORKED,
               "this process was forked after sk_init(); connections and mapped memory do not "
               "survive that: start a new process instead (spawn, or exec after fork). For what "
               "needs no other ranks call sk_init() here");
}

}  // namespace

Status watch_forks(void (*forget)()) {
  if (uint32_t* known = fork_page.load(std::memory_order_acquire)) {
    begin_again(known, forget);
    return {};
  }
  const auto page_bytes = size_t(sysconf(_SC_PAGESIZE));
  void* page = fork_room;
  size_t room = sizeof fork_room;
  if (page_bytes > kPageBytesMax || std::align(page_bytes, page_bytes, page, room) == nullptr)
    return error(SK_ERR_UNSUPPORTED, "pages of {} bytes; up to {} are known", page_bytes,
                 kPageBytesMax);
  if (madvise(page, page_bytes, MADV_WIPEONFORK) != 0)
    return system_error("asking for MADV_WIPEONFORK");
  here(static_cast<uint32_t*>(page)).store(kFirst, std::memory_order_relaxed);
  fork_page.store(static_cast<uint32_t*>(page), std::memory_order_release);
  return {};
}

Status check_outside_tiles() {
  if (!InsideTile::is()) [[likely]]
    return {};
  return error(SK_ERR_BUSY, "called from inside a tile: a call is not over");
}

Status check_not_forked() {
  uint32_t* page = fork_page.load(std::memory_order_acquire);
  // Atomic: two threads may be each the first to call sk_init(), and the slower one writes while
  // the other one has gone on.
  if (page == nullptr || (here(page).load(std::memory_order_relaxed) & kFirst) != 0) [[likely]]
    return {};
  return forked();
}

Status check_may_connect() {
  uint32_t* page = fork_page.load(std::memory_order_acquire);
  if (page == nullptr || here(page).load(std::memory_order_relaxed) == kFirst) return {};
  return forked();
}

Status check_text(const char* name, const char* text, uint64_t bytes) {
  if (text == nullptr && bytes > 0)
    return error(SK_ERR_INVALID_ARGUMENT, "{} is NULL but has {} bytes", name, bytes);
  if (bytes <= kTextBytesMax) return {};
  return error(SK_ERR_OUT_OF_RANGE, "{} has {} bytes, {} are allowed", name, bytes, kTextBytesMax);
}

Status copy_out(const std::string& text, char* buffer, size_t capacity, size_t* out_size) {
  SK_RETURN_IF_ERROR(require("out_size", out_size));
  *out_size = text.size();
  if (capacity == 0) return {};
  SK_RETURN_IF_ERROR(require("buffer", buffer));
  const size_t fits = std::min(text.size(), capacity - 1);
  std::memcpy(buffer, text.data(), fits);
  buffer[fits] = '\0';
  if (fits == text.size()) return {};
  return error(SK_ERR_OUT_OF_RANGE, "capacity is {}, the text needs {}", capacity, text.size() + 1);
}

}  // namespace sk::api
