#include "lib/op/op.h"

#include "lib/base/hash.h"

namespace sk {

uint64_t fingerprint(const OpDesc& op) {
  uint64_t hash =
      hash_mix(0, uint64_t(op.kind) | uint64_t(op.dtype) << 8 | uint64_t(op.out_dtype) << 16 |
                      uint64_t(op.redop) << 24 | uint64_t(op.symmetric_in) << 32 |
                      uint64_t(op.symmetric_out) << 33 | uint64_t(op.in_place) << 34 |
                      uint64_t(op.transpose_a) << 35 | uint64_t(op.pack_b) << 36 |
                      uint64_t(op.transpose_b) << 37);
  hash = hash_mix(hash, uint64_t(uint32_t(op.root)) << 32 | uint32_t(op.peer));
  for (const int64_t value : {op.count, op.m, op.n, op.k, op.lda, op.ldb, op.ldc}) {
    hash = hash_mix(hash, uint64_t(value));
  }
  return hash == 0 ? 1 : hash;
}

}  // namespace sk
