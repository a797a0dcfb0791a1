#include "lib/control/host/chunk_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <cstdlib>

namespace sk::control {

Status ChunkFile::open() {
  const char* named = std::getenv("TMPDIR");
  const std::string folder = named == nullptr || *named == '\0' ? "/tmp" : named;
  fd_ = local::Fd(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!fd_.open())
    return error(SK_ERR_SYSTEM, "log: no temporary file in {}: {}", folder, strerror(errno));
  return {};
}

Result<uint32_t> ChunkFile::put(std::string_view bytes) {
  if (!fd_.open()) SK_RETURN_IF_ERROR(open());
  const bool reuse = !free_.empty();
  if (!reuse && end_ == chunks_max_)
    return error(SK_ERR_NO_MEMORY, "log: {} bytes are kept already", chunks_max_ * kChunkBytes);
  const uint32_t id = reuse ? free_.back() : end_;
  const auto offset = static_cast<off_t>(uint64_t(id) * kChunkBytes);
  if (pwrite(fd_.get(), bytes.data(), bytes.size(), offset) != static_cast<ssize_t>(bytes.size()))
    return error(SK_ERR_SYSTEM, "log: the temporary file takes no more: {}", strerror(errno));
  if (reuse)
    free_.pop_back();
  else
    ++end_;
  return id;
}

Result<std::string> ChunkFile::get(uint32_t id) const {
  std::string bytes(kChunkBytes, '\0');
  const auto offset = static_cast<off_t>(uint64_t(id) * kChunkBytes);
  if (pread(fd_.get(), bytes.data(), bytes.size(), offset) != static_cast<ssize_t>(bytes.size()))
    return error(SK_ERR_SYSTEM, "log: the temporary file cannot be read: {}", strerror(errno));
  return bytes;
}

}  // namespace sk::control
