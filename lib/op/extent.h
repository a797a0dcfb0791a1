// What a call asks of its callers' buffers: how large they are, and which part is whose.
#ifndef SK_LIB_OP_EXTENT_H_
#define SK_LIB_OP_EXTENT_H_

#include <array>

#include "lib/op/op.h"

namespace sk {

// Elements as rows of `row_bytes`, `stride` apart; vectors are one row. `bytes` is the whole.
struct Extent {
  uint64_t rows = 0, row_bytes = 0, stride = 0;
  uint64_t bytes = 0;
  bool overflow = false;
};

// Of a rank's buffer.
struct Window {
  uint64_t first = 0, count = 0;
};

// The operands of one call, by its schema. Numbers that the operation does not have are allowed:
// they have no bytes.
class Operands {
 public:
  // `packed_bytes`: of an operand that comes packed.
  Operands(const OpDesc& op, uint32_t world_size, uint64_t packed_bytes);

  // The memory of every rank that has the operand; 0 bytes where there is nothing to compute. In
  // place it is that of the whole operand, for the part as well.
  Extent extent(uint32_t number) const;

  // The bytes of that memory which are the operand's own: of an input what the caller puts there
  // before the run, of an output what the run defines.
  Window window(uint32_t number, uint32_t rank) const;

  // The operand whose memory it is in: another one's where it has none of its own.
  uint32_t count() const { return count_; }
  uint32_t home(uint32_t number) const { return number < count_ ? operands_[number].home : number; }
  // Whether a call passes it: not what is a part of another's memory, which is passed once, whole.
  bool passed(uint32_t number) const;
  // Whether it has other operands in its memory.
  bool shared(uint32_t number) const;
  // Whether `rank` has it at all.
  bool has(uint32_t number, uint32_t rank) const;

 private:
  struct Each {
    Extent own;        // Without regard to place.
    uint8_t home = 0;  // The operand whose memory it is in.
    bool absent = false;
    int64_t only_on = -1;  // The one rank that has it.
    const char* at = "0";  // In its home: an expression of `rank`.
    uint64_t element_bytes = 1;
  };

  OpDesc op_;
  uint32_t world_size_;
  uint32_t count_ = 0;
  std::array<Each, OpDesc::kOperandsMax> operands_;
};

}  // namespace sk

#endif  // SK_LIB_OP_EXTENT_H_
