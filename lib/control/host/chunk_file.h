// Chunks in a temporary file without a name: nothing is left behind, however the process ends.
#ifndef SK_LIB_CONTROL_HOST_CHUNK_FILE_H_
#define SK_LIB_CONTROL_HOST_CHUNK_FILE_H_

#include <vector>

#include "lib/control/log/chunks.h"
#include "transport/local/fd.h"

namespace sk::control {

inline constexpr uint64_t kLogBytesMax = 1ull << 30;

class ChunkFile : public Chunks {
 public:
  // The file is made when the first chunk comes, in TMPDIR or /tmp.
  ChunkFile() : chunks_max_(kLogBytesMax / kChunkBytes) {}

  Result<uint32_t> put(std::string_view bytes) override;
  Result<std::string> get(uint32_t id) const override;
  void free(uint32_t id) override { free_.push_back(id); }

 private:
  Status open();

  const uint64_t chunks_max_;
  local::Fd fd_;
  uint32_t end_ = 0;  // Chunks that the file has.
  std::vector<uint32_t> free_;
};

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_HOST_CHUNK_FILE_H_
