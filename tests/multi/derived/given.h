// One rank's side of a call: tensors, packed weights and the struct of arguments, as a caller has
// them.
#ifndef SK_TESTS_MULTI_DERIVED_GIVEN_H_
#define SK_TESTS_MULTI_DERIVED_GIVEN_H_

#include <array>
#include <vector>

#include "lib/op/call_layout.h"
#include "sk.h"
#include "tests/multi/derived/random_call.h"

namespace sk::derived {

class Given {
 public:
  // Collective, where operands are symmetric. `random`: of this rank.
  Given(sk_comm* comm, const Case& c, int64_t rank, Random& random);
  ~Given();
  Given(const Given&) = delete;
  Given& operator=(const Given&) = delete;

  // The memory as it was before.
  void restore();
  RankMemory memory() const;

  const void* args() const { return args_.data(); }
  // For who wants to break something.
  // Of a list that which broken() says.
  sk_tensor& tensor(uint32_t operand) {
    std::vector<sk_tensor>& list = lists_[operand];
    return list.empty() ? tensors_[operand] : list[broken(case_.shape)];
  }
  sk_tensor& entry(uint32_t operand, size_t number) { return lists_[operand][number]; }
  // The first tensor of a list that has elements, or else the first.
  static size_t broken(const Shape& shape);
  std::vector<const sk_tensor*>& list(uint32_t operand) { return pointers_[operand]; }
  // Other values of a run than the call's.
  void put_other_values();
  std::array<unsigned char, 4096>& bytes() { return args_; }
  template <typename T>
  void put(const ArgField& field, const T& value) {
    std::memcpy(args_.data() + field.offset, static_cast<const void*>(&value), sizeof(T));
  }

 private:
  std::byte* data(uint32_t operand);
  sk_tensor describe(uint32_t operand, Random& random);
  void describe_list(uint32_t operand, Random& random);
  static void shape_vector(sk_tensor& tensor, int64_t count, Random& random);
  void put_number(const ArgField& field, int64_t value);

  sk_comm* comm_;
  const Case& case_;
  const int64_t rank_;
  RankMemory memory_;
  std::vector<void*> symmetric_;  // By operand; null where it is ordinary.
  std::vector<sk_tensor> tensors_;
  // By operand, of lists.
  std::vector<std::vector<sk_tensor>> lists_;
  std::vector<std::vector<const sk_tensor*>> pointers_;
  std::vector<sk_packed*> packed_;
  std::array<unsigned char, 4096> args_{};
};

}  // namespace sk::derived

#endif  // SK_TESTS_MULTI_DERIVED_GIVEN_H_
