// Lists of tensors among a call's arguments: read tensor by tensor, and said by which of them.
#ifndef SK_LIB_COMM_LIST_ARGUMENTS_H_
#define SK_LIB_COMM_LIST_ARGUMENTS_H_

#include <string>
#include <vector>

#include "lib/comm/tensor_arguments.h"
#include "lib/op/schema.h"

namespace sk {

// Of one call: all of its lists, and how its memory lies.
class ListArguments {
 public:
  static constexpr int64_t kLengthMax = int64_t(1) << 20;

  explicit ListArguments(const Schema& schema) : schema_(schema) {}

  // How many tensors each list has.
  Status take_length(int64_t length);
  // A list's tensors: as many in all as one vector. Its type is that of its first one; f32 of none.
  Result<StoredTensor> read(World world, uint32_t operand, const sk_tensor* const* tensors);
  // Whether the n-th tensors of all lists are equally long; all of them have been read.
  Status check_lengths() const;
  // Whether what is written is apart from all else. `others` are operands that are no lists.
  Status check_apart(std::span<const CallOperand> others) const;
  // What a run is told.
  std::shared_ptr<const Pieces> pieces() const;

 private:
  struct Entry {
    std::byte* data = nullptr;
    uint64_t count = 0, bytes = 0;
  };
  // "params[17]".
  std::string name(size_t operand, size_t entry) const;
  Status read_entry(World world, uint32_t operand, size_t entry, const sk_tensor* tensor,
                    StoredTensor& all);

  const Schema& schema_;
  size_t length_ = 0;
  std::array<std::vector<Entry>, OpDesc::kOperandsMax> lists_;  // Empty of what is no list.
  int first_ = -1;  // The list that says how long the others' tensors are.
};

}  // namespace sk

#endif  // SK_LIB_COMM_LIST_ARGUMENTS_H_
