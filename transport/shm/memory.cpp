#include "transport/shm/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lib/base/memory_limit.h"

namespace sk::shm {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kHugePage = 2 << 20;

// fallocate() gives back all of its work when a signal interrupts it, so the pieces must be short
// against the period of a profiler's timer.
constexpr uint64_t kCommitPiece = 2 << 20;

// What takes less is not worth asking about.
constexpr uint64_t kLargeCommit = 16 << 20;

Status punch(int fd, uint64_t offset, uint64_t bytes) {
  while (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                   static_cast<off_t>(bytes)) != 0) {
    if (errno != EINTR) {
      return system_error(fmt::format("cannot release {} bytes of shared memory", bytes));
    }
  }
  return {};
}

// Address space that begins at a multiple of 2 MiB: huge pages need the file and the mapping to
// agree in their low bits.
void* reserve_aligned(uint64_t bytes) {
  void* whole = mmap(nullptr, bytes + kHugePage, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (whole == MAP_FAILED) return MAP_FAILED;
  auto* const begin = static_cast<std::byte*>(whole);
  const uint64_t before = (kHugePage - reinterpret_cast<uintptr_t>(whole) % kHugePage) % kHugePage;
  const uint64_t behind = kHugePage - before;
  if (before > 0) munmap(begin, before);
  if (behind > 0) munmap(begin + before + bytes, behind);
  return begin + before;
}

}  // namespace

Result<Secret> random_secret() {
  Secret secret;
  // Not interrupted and never short for up to 256 bytes, once the kernel's pool is ready.
  if (getrandom(secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size())) {
    return system_error("cannot get random bytes");
  }
  return secret;
}

Result<std::shared_ptr<SharedMemory>> SharedMemory::create(uint64_t bytes, Pages pages) {
  // Beyond this limit ftruncate() would raise SIGXFSZ, which ends the process.
  rlimit limit = {};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur) {
    return error(SK_ERR_NO_MEMORY,
                 "{} bytes of shared memory exceed the limit of file sizes, {} (`ulimit -f`); "
                 "symmetric_bytes_max is a part of them",
                 bytes, limit.rlim_cur);
  }
  const char* const name = pages == Pages::kHuge ? "sk-segment" : "sk-control";
  Fd fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return system_error("cannot create a shared-memory file (memfd)");
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return system_error(fmt::format("cannot size the shared-memory file to {} bytes", bytes));
  }
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return system_error("cannot seal the size of the shared-memory file");
  }
  return map(std::move(fd), bytes, pages);
}

Result<std::shared_ptr<SharedMemory>> SharedMemory::attach(Fd fd, uint64_t bytes, Pages pages,
                                                           bool keep_descriptor) {
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return system_error("cannot look at a peer's shared memory");
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (static_cast<uint64_t>(info.st_size) != bytes || seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return error(SK_ERR_TRUST,
                 "a peer's shared memory has {} bytes and seals {:#x}; {} bytes, sealed, were due",
                 info.st_size, seals, bytes);
  }
  SK_ASSIGN_OR_RETURN(std::shared_ptr<SharedMemory> memory, map(std::move(fd), bytes, pages));
  if (!keep_descriptor) memory->close_descriptor();
  return memory;
}

Result<std::shared_ptr<SharedMemory>> SharedMemory::map(Fd fd, uint64_t bytes, Pages pages) {
  void* place = reserve_aligned(bytes);
  if (place == MAP_FAILED) {
    return system_error(
        fmt::format("cannot reserve {} bytes of address space (symmetric_bytes_max is a part of "
                    "them, `ulimit -v` the limit)",
                    bytes));
  }
  void* base = mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED,
                    fd.get(), 0);
  if (base == MAP_FAILED) {
    Status status = system_error(fmt::format("cannot map {} bytes of shared memory", bytes));
    munmap(place, bytes);
    return status;
  }
  // Advice only: kernels that give shared memory no huge pages refuse, and nothing is lost.
  if (pages == Pages::kHuge) madvise(base, bytes, MADV_HUGEPAGE);
  return std::shared_ptr<SharedMemory>(
      new SharedMemory(std::move(fd), static_cast<std::byte*>(base), bytes));
}

SharedMemory::~SharedMemory() { munmap(base_, bytes_); }

Status SharedMemory::check_range(const char* what, uint64_t offset, uint64_t bytes) const {
  if (offset % kPage != 0 || bytes % kPage != 0 || bytes > bytes_ || offset > bytes_ - bytes) {
    return error(SK_ERR_INTERNAL,
                 "{} of [{}, +{}) in {} bytes of shared memory; pages of 4096 only", what, offset,
                 bytes, bytes_);
  }
  return {};
}

Status SharedMemory::commit(uint64_t offset, uint64_t bytes) {
  SK_RETURN_IF_ERROR(check_range("commit", offset, bytes));
  if (bytes >= kLargeCommit) {
    const uint64_t available = memory_available("");
    if (bytes > available) {
      return error(SK_ERR_NO_MEMORY, "cannot take {} bytes of shared memory: {} are available",
                   bytes, available);
    }
  }
  uint64_t done = 0;
  while (done < bytes) {
    const uint64_t piece = std::min(bytes - done, kCommitPiece);
    if (fallocate(fd_.get(), 0, static_cast<off_t>(offset + done), static_cast<off_t>(piece)) ==
        0) {
      done += piece;
      continue;
    }
    if (errno == EINTR) continue;
    Status status = system_error(
        fmt::format("cannot take {} bytes of shared memory (after {} of them)", bytes, done));
    if (done > 0) {
      if (Status undo = punch(fd_.get(), offset, done); !undo.ok()) {
        return std::move(status).with_context(undo.message());
      }
    }
    return status;
  }
  return {};
}

Status SharedMemory::release(uint64_t offset, uint64_t bytes) {
  SK_RETURN_IF_ERROR(check_range("release", offset, bytes));
  return bytes == 0 ? Status() : punch(fd_.get(), offset, bytes);
}

}  // namespace sk::shm
