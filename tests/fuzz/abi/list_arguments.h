// Lists of tensors as callers of operations hand them over: of one length, which is now and then
// none that a list has, tensor by tensor of one extent, now and then with one that is null or
// wrong.
#ifndef SK_TESTS_FUZZ_ABI_LIST_ARGUMENTS_H_
#define SK_TESTS_FUZZ_ABI_LIST_ARGUMENTS_H_

#include <memory>
#include <vector>

#include "tests/fuzz/abi/tensors.h"

namespace sk::fuzz_abi {

class Lists {
 public:
  explicit Lists(Caller& c) : extents_(c.random.below(5)) {
    for (int64_t& each : extents_) each = int64_t(c.random.below(25));
    // What a caller says must be there, as far as the library may believe it.
    length_ = c.random.one_in(64) ? 1 + c.random.below(5000) : extents_.size();
  }

  // The arrays have as many tensors as it says where that is a length of lists, at most 2^20: more,
  // and less than none, are refused before they are read.
  int64_t length(Random& random) const {
    constexpr int64_t kNever[] = {-1, INT64_MIN, INT64_MAX, (1 << 20) + 1};
    return random.one_in(32) ? kNever[random.below(4)] : int64_t(length_);
  }

  // Another one, in memory of its own, tensors one behind the other; rarely null.
  const sk_tensor* const* add(Caller& c, int32_t dtype) {
    static thread_local Guarded memories[] = {Guarded(kBytes), Guarded(kBytes), Guarded(kBytes),
                                              Guarded(kBytes)};
    // Rarely in another list's, which operations may not write then.
    Guarded& memory = memories[(lists_.size() + (c.random.one_in(32) ? 1 : 0)) % 4];
    List& list = lists_.emplace_back(List{&memory, {}, {}});
    uint64_t bytes = 0;
    for (const int64_t each : extents_) bytes += uint64_t(each) * element_bytes(dtype);
    auto* data = static_cast<unsigned char*>(c.operand(memory, bytes));
    for (const int64_t each : extents_) {
      list.tensors.push_back(tensor(c, data, each, dtype));
      if (data != nullptr) data += uint64_t(each) * element_bytes(dtype);
    }
    for (size_t i = 0; i < length_; ++i)
      list.pointers.push_back(list.tensors.empty() ? nullptr
                                                   : list.tensors[i % list.tensors.size()]->get());
    return c.random.one_in(48) ? nullptr : list.pointers.data();
  }

  void check(const char* call) const {
    for (const List& list : lists_) {
      list.memory->check(call);
      for (const auto& each : list.tensors) each->check(call, false);
    }
  }

 private:
  static constexpr size_t kBytes = 4 * 24 * 8 + 64;
  using Tensor = std::unique_ptr<Given<sk_tensor>>;
  struct List {
    Guarded* memory;
    std::vector<Tensor> tensors;
    std::vector<const sk_tensor*> pointers;
  };

  // A call has many of them: most are right. What is of another length is shorter, as there is no
  // more memory.
  static Tensor tensor(Caller& c, void* data, int64_t extent, int32_t dtype) {
    sk_tensor t{};
    t.dtype = dtype;
    t.data = data;
    t.ndim = 1;
    t.shape[0] = extent > 0 && c.random.one_in(64) ? extent - 1 : extent;
    t.strides[0] = 1;
    if (c.random.one_in(8)) spoil(c.random, t);
    if (c.random.one_in(32)) return std::make_unique<Given<sk_tensor>>(c.random, t);
    return std::make_unique<Given<sk_tensor>>(c.random, t, uint32_t(sizeof t));
  }

  std::vector<int64_t> extents_;
  size_t length_;
  std::vector<List> lists_;
};

}  // namespace sk::fuzz_abi

#endif  // SK_TESTS_FUZZ_ABI_LIST_ARGUMENTS_H_
