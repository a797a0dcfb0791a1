// All memory of a reference world: callers' buffers, workspace and staging areas of every rank.
#ifndef SK_LIB_EXEC_REFERENCE_MEMORY_H_
#define SK_LIB_EXEC_REFERENCE_MEMORY_H_

#include <random>
#include <vector>

#include "lib/exec/reference.h"

namespace sk {

class ReferenceMemory {
 public:
  ReferenceMemory(const Plan& plan, uint64_t seed);

  // Where `buffer` begins for a task of run `run`.
  std::byte* address(uint32_t buffer, uint32_t run);

  void begin(uint32_t rank, const OperandBytes& inputs);
  // Copies the operands out, then overwrites them. Fails where bytes the op defines are unwritten.
  Status end(uint32_t rank, OperandBytes& outputs);

  // Counts the bytes of one region entry that a task writes.
  Status count_write(const Region& region, uint32_t buffer);

 private:
  struct Operand {
    bool exists = false;
    BufferKind kind = BufferKind::kInput;
    std::vector<std::byte> bytes;
    std::vector<bool> written;
  };
  void poison(std::vector<std::byte>& bytes);
  // Of the memory that is operand `home`'s.
  uint64_t defined_bytes(uint32_t rank, uint32_t home) const;

  const Plan& plan_;
  std::mt19937_64 random_;
  std::vector<std::array<Operand, OpDesc::kOperandsMax>> operands_;  // By rank.
  std::vector<std::array<std::vector<std::byte>, 3>> workspace_;  // By rank: area, staging areas.
};

}  // namespace sk

#endif  // SK_LIB_EXEC_REFERENCE_MEMORY_H_
