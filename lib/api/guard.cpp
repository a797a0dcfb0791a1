#include "lib/api/guard.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>

namespace sk::api {
namespace {

// Room for one page that a forked child finds zeroed: 1 in the process that called sk_init(). The
// library's own, so that it goes with it; without contents in the file, hence anonymous memory, of
// which alone the kernel lets a page be wiped.
constexpr size_t kPageBytesMax = 65'536;
constinit std::byte fork_room[2 * kPageBytesMax] = {};
constinit std::atomic<uint32_t*> fork_page{nullptr};

}  // namespace

Status watch_forks() {
  if (fork_page.load(std::memory_order_acquire) != nullptr) return {};
  const auto page_bytes = size_t(sysconf(_SC_PAGESIZE));
  void* page = fork_room;
  size_t room = sizeof fork_room;
  if (page_bytes > kPageBytesMax || std::align(page_bytes, page_bytes, page, room) == nullptr)
    return error(SK_ERR_UNSUPPORTED, "pages of {} bytes; up to {} are known", page_bytes,
                 kPageBytesMax);
  if (madvise(page, page_bytes, MADV_WIPEONFORK) != 0)
    return system_error("asking for MADV_WIPEONFORK");
  std::atomic_ref(*static_cast<uint32_t*>(page)).store(1, std::memory_order_relaxed);
  fork_page.store(static_cast<uint32_t*>(page), std::memory_order_release);
  return {};
}

Status check_not_forked() {
  uint32_t* page = fork_page.load(std::memory_order_acquire);
  // Atomic: two threads may be each the first to call sk_init(), and the slower one writes its 1
  // while the other one has gone on.
  if (page == nullptr || std::atomic_ref(*page).load(std::memory_order_relaxed) == 1) [[likely]]
    return {};
  return error(SK_ERR_FORKED,
               "this process was forked after sk_init(); connections and mapped memory do not "
               "survive that: start a new process instead (spawn, or exec after fork)");
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
