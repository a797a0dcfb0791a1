// A kernel whose pages are 64 KiB, as many for AArch64 are: in a program with this file, whoever
// asks the C library for memory is told and refused as there. What is nearer than 64 KiB to its end
// is there, too, as it is in a page.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace {

constexpr size_t kPage = 64 << 10;

size_t rounded(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }
bool begins_page(const void* at) { return reinterpret_cast<uintptr_t>(at) % kPage == 0; }

template <typename Function>
Function* next(const char* name, Function*) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}
#define SK_NEXT(function)                                    \
  [] {                                                       \
    static auto* const found = next(#function, &::function); \
    return found;                                            \
  }()

int refused() {
  errno = EINVAL;
  return -1;
}

}  // namespace

// Else the libraries would not find them.
#pragma GCC visibility push(default)
extern "C" {

long sysconf(int name) noexcept {
  return name == _SC_PAGESIZE ? long(kPage) : SK_NEXT(sysconf)(name);
}

int getpagesize() noexcept { return int(kPage); }

int munmap(void* at, size_t bytes) noexcept {
  return begins_page(at) ? SK_NEXT(munmap)(at, rounded(bytes)) : refused();
}

int mprotect(void* at, size_t bytes, int access) noexcept {
  return begins_page(at) ? SK_NEXT(mprotect)(at, rounded(bytes), access) : refused();
}

int madvise(void* at, size_t bytes, int advice) noexcept {
  return begins_page(at) ? SK_NEXT(madvise)(at, rounded(bytes), advice) : refused();
}

void* mmap(void* at, size_t bytes, int access, int flags, int file, off_t offset) noexcept {
  auto* const map = SK_NEXT(mmap);
  const bool is_fixed = (flags & MAP_FIXED) != 0;
  if (offset % off_t(kPage) != 0 || (is_fixed && !begins_page(at))) {
    errno = EINVAL;
    return MAP_FAILED;
  }
  if (is_fixed) return map(at, rounded(bytes), access, flags, file, offset);
  const size_t room = rounded(bytes) + kPage;
  void* const whole =
      map(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (whole == MAP_FAILED) return MAP_FAILED;
  auto* const begin = static_cast<std::byte*>(whole);
  const size_t before = (kPage - reinterpret_cast<uintptr_t>(whole) % kPage) % kPage;
  auto* const unmap = SK_NEXT(munmap);
  if (before > 0) unmap(begin, before);
  unmap(begin + before + rounded(bytes), kPage - before);
  void* const there = map(begin + before, rounded(bytes), access, flags | MAP_FIXED, file, offset);
  if (there == MAP_FAILED) unmap(begin + before, rounded(bytes));
  return there;
}

}  // extern "C"
#pragma GCC visibility pop
