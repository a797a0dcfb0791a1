// What a call asks of its callers' buffers: how large they are, and which part is whose.
#ifndef SK_LIB_OP_EXTENT_H_
#define SK_LIB_OP_EXTENT_H_

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

// The memory behind operand `number` of every rank that has it; 0 bytes where the operation has no
// such operand, or nothing to compute. In place it is the whole operand, for both numbers.
// `packed_bytes`: of an operand that comes packed.
Extent operand_extent(const OpDesc& op, uint32_t number, uint32_t world_size,
                      uint64_t packed_bytes);

// The bytes of that memory which are the operand's: of an input what the caller puts there before
// the run, of an output what the run defines.
Window operand_window(const OpDesc& op, uint32_t number, uint32_t world_size, uint32_t rank,
                      uint64_t packed_bytes);

}  // namespace sk

#endif  // SK_LIB_OP_EXTENT_H_
