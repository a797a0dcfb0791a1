// Where the full pieces of logs are put: memory in tests, a file without a name in the controller.
#ifndef SK_LIB_CONTROL_LOG_CHUNKS_H_
#define SK_LIB_CONTROL_LOG_CHUNKS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "lib/base/status.h"

namespace sk::control {

inline constexpr size_t kChunkBytes = 16 * 1024;

class Chunks {
 public:
  virtual ~Chunks() = default;
  // Keeps kChunkBytes bytes; an error when there is no room.
  virtual Result<uint32_t> put(std::string_view bytes) = 0;
  virtual Result<std::string> get(uint32_t id) const = 0;
  virtual void free(uint32_t id) = 0;
};

// At most `chunks_max` of them, in memory.
class MemoryChunks : public Chunks {
 public:
  explicit MemoryChunks(size_t chunks_max) : chunks_max_(chunks_max) {}
  Result<uint32_t> put(std::string_view bytes) override {
    if (chunks_.size() == chunks_max_)
      return error(SK_ERR_NO_MEMORY, "{} chunks are kept already", chunks_max_);
    chunks_[++last_] = bytes;
    return last_;
  }
  Result<std::string> get(uint32_t id) const override {
    const auto found = chunks_.find(id);
    if (found == chunks_.end()) return error(SK_ERR_OUT_OF_RANGE, "no chunk {}", id);
    return found->second;
  }
  void free(uint32_t id) override { chunks_.erase(id); }
  size_t count() const { return chunks_.size(); }

 private:
  const size_t chunks_max_;
  std::map<uint32_t, std::string> chunks_;
  uint32_t last_ = 0;
};

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_LOG_CHUNKS_H_
