// What is asked: an operation and its types, places, shapes and attributes. No how.
#ifndef SK_LIB_OP_OP_H_
#define SK_LIB_OP_OP_H_

#include <array>
#include <cstdint>
#include <string>

#include "lib/base/status.h"
#include "lib/op/dtype.h"

namespace sk {

struct Schema;

enum class OpKind : uint16_t {
  kBarrier = SK_OP_BARRIER,
  kAllreduce = SK_OP_ALLREDUCE,
  kAllgather = SK_OP_ALLGATHER,
  kReduceScatter = SK_OP_REDUCE_SCATTER,
  kBroadcast = SK_OP_BROADCAST,
  kSendRecv = SK_OP_SEND_RECV,
  kAllreduceGemm = SK_OP_ALLREDUCE_GEMM,
  kAllgatherGemm = SK_OP_ALLGATHER_GEMM,
  kRmsnorm = 9,  // From here on sk/ops.h has their names.
  kRmsnormBackward = 10,
  kAddRmsnorm = 11,
  kAdamw = 12,
  kAlltoall = 13,
  kReduceToRoot = 14,
  kGather = 15,
  kScatter = 16,
  // Collective calls that move nothing: entry exchanges with a name, so that a mismatch can say it.
  kAlloc = 100,
  kFree = 101,
  kRegister = 102,
  kDeregister = 103,
  kUserFirst = 1000,  // From here on: those that users registered, each of its context.
};

// How an operand is stored.
enum class Storage : uint8_t {
  kDense,    // Element after element.
  kRows,     // Rows of elements, `stride` apart.
  kPackedB,  // As sk_pack() leaves a matrix.
};

// Some bits of a description; none where `bits` is 0.
struct Field {
  uint8_t word = 0, shift = 0, bits = 0;

  constexpr explicit operator bool() const { return bits != 0; }
  constexpr bool operator==(const Field&) const = default;
  constexpr uint64_t mask() const {
    return (bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1) << shift;
  }
};

// A call in the words of its schema (schema.h); equal on all ranks, since one description makes the
// parts of all. Four operands to a word, the booleans in one, then dimensions, strides and
// attributes in the order of the schema. Words and bits that a schema does not use are 0.
class OpDesc {
 public:
  static constexpr uint32_t kOperandsMax = 8, kWordsMax = 40;
  static constexpr uint32_t kReachedMax = 5;  // Peers reach none from this one on.
  static constexpr uint32_t kFlagWord = kOperandsMax / 4, kFirstWord = kFlagWord + 1;

  OpDesc();  // A barrier.
  // Elements are f32, operands stored as the schema says first, reductions sums, all else is 0.
  explicit OpDesc(const Schema& schema);

  const Schema& schema() const { return *schema_; }
  OpKind kind() const;

  static constexpr Field type_field(uint32_t operand) { return operand_field(operand, 0, 8); }
  static constexpr Field storage_field(uint32_t operand) { return operand_field(operand, 8, 3); }
  static constexpr Field symmetric_field(uint32_t operand) { return operand_field(operand, 11, 1); }
  static constexpr Field aliased_field(uint32_t operand) { return operand_field(operand, 12, 1); }
  static constexpr Field absent_field(uint32_t operand) { return operand_field(operand, 13, 1); }

  int64_t operator[](Field field) const {
    return int64_t((words_[field.word] & field.mask()) >> field.shift);
  }
  void set(Field field, int64_t value) {
    uint64_t& word = words_[field.word];
    word = (word & ~field.mask()) | (uint64_t(value) << field.shift & field.mask());
  }

  DType type(uint32_t operand) const { return DType((*this)[type_field(operand)]); }
  Storage storage(uint32_t operand) const { return Storage((*this)[storage_field(operand)]); }
  // Peers can map it, so that plans may read or write it there.
  bool symmetric(uint32_t operand) const { return (*this)[symmetric_field(operand)] != 0; }
  // It has no memory of its own: it is part of another operand's.
  bool aliased(uint32_t operand) const { return (*this)[aliased_field(operand)] != 0; }
  // The call came without it. It has a type all the same, the first that its schema says.
  bool absent(uint32_t operand) const { return (*this)[absent_field(operand)] != 0; }
  bool in_place() const;
  bool any_symmetric() const;

  // Never 0, so that a cleared entry slot matches nothing.
  uint64_t hash() const;
  // Whether words or bits are set that its schema does not use.
  bool has_foreign_bits() const;
  bool operator==(const OpDesc&) const = default;

 private:
  static constexpr Field operand_field(uint32_t operand, uint32_t shift, uint32_t bits) {
    return {uint8_t(operand / 4), uint8_t(operand % 4 * 16 + shift), uint8_t(bits)};
  }
  bool any(Field (*field)(uint32_t)) const;

  const Schema* schema_;
  std::array<uint64_t, kWordsMax> words_{};
};

// Of two ranks alone.
bool is_pair(const OpDesc& op);
// The ranks of such a call; who sends is first.
std::array<uint32_t, 2> ends_of(const OpDesc& op);

// Of each rank alone.
bool is_local(const OpDesc& op);

// Whether `rank` has that operand at all.
bool has_operand(const OpDesc& op, uint32_t operand, uint32_t rank);

// "allreduce(f32, sum, 1000)": for error sentences.
std::string describe(const OpDesc& op);
const char* op_kind_name(OpKind kind);
// As callers know operand 0, 1 or 2: "in", "out"; of a GEMM "a", "c", "b".
const char* operand_name(const OpDesc& op, uint32_t operand);

}  // namespace sk

#endif  // SK_LIB_OP_OP_H_
