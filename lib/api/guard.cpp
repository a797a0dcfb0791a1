#include "lib/api/guard.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace sk::api {
namespace {

// One page that a forked child finds zeroed: 1 in the process that called sk_init().
std::atomic<const volatile uint32_t*> fork_page{nullptr};

}  // namespace

Status watch_forks() {
  if (fork_page.load(std::memory_order_acquire) != nullptr) return {};
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return system_error("mapping the page that tells a fork");
  if (madvise(page, 4096, MADV_WIPEONFORK) != 0) return system_error("asking for MADV_WIPEONFORK");
  *static_cast<uint32_t*>(page) = 1;
  const volatile uint32_t* expected = nullptr;
  if (!fork_page.compare_exchange_strong(expected, static_cast<uint32_t*>(page))) {
    munmap(page, 4096);  // Another thread was first.
  }
  return {};
}

Status check_not_forked() {
  const volatile uint32_t* page = fork_page.load(std::memory_order_acquire);
  if (page == nullptr || *page == 1) [[likely]]
    return {};
  return error(SK_ERR_FORKED,
               "this process was forked after sk_init(); connections and mapped memory do not "
               "survive that: start a new process instead (spawn, or exec after fork)");
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
