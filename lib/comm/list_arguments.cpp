#include "lib/comm/list_arguments.h"

#include <algorithm>

#include "lib/comm/checks.h"
#include "lib/op/judge.h"

namespace sk {
namespace {

// Memory of one argument.
struct Span {
  const void* data = nullptr;
  uint64_t bytes = 0;
  size_t operand = 0, entry = 0;
  bool written = false;

  uintptr_t begin() const { return reinterpret_cast<uintptr_t>(data); }
  uintptr_t end() const { return begin() + bytes; }
};

}  // namespace

std::string ListArguments::name(size_t operand, size_t entry) const {
  const OperandSchema& is = schema_.operands[operand];
  return is.list ? fmt::format("{}[{}]", is.name, entry) : is.name;
}

Status ListArguments::take_length(int64_t length) {
  if (length < 0 || length > kLengthMax) {
    return error(SK_ERR_INVALID_ARGUMENT, "length is {}, a list has 0 to {} tensors", length,
                 kLengthMax);
  }
  length_ = size_t(length);
  return {};
}

Status ListArguments::read_entry(World world, uint32_t operand, size_t entry,
                                 const sk_tensor* tensor, StoredTensor& all) {
  Result<StoredTensor> found = stored_tensor(world, schema_.operands[operand].name, 1, tensor);
  if (!found.ok()) {  // Again, for the sentence: names of hundreds are slower than their tensors.
    const std::string called = name(operand, entry);
    Status failed = std::move(stored_tensor(world, called.c_str(), 1, tensor).status());
    if (std::string_view(failed.message()).starts_with(called)) return failed;
    return error(failed.code(), "{}: {}", called, failed.message());
  }
  const StoredTensor& read = found.value();
  if (entry == 0) all.dtype = read.dtype;
  if (read.dtype != all.dtype) {
    return error(SK_ERR_INVALID_ARGUMENT, "{} is {}, it must be {}, as {} is", name(operand, entry),
                 dtype_name(read.dtype), dtype_name(all.dtype), name(operand, 0));
  }
  all.cols += read.cols;
  if (all.cols > kElementsMax) {
    return error(SK_ERR_INVALID_ARGUMENT, "{} have more than 2^46 elements in all, up to {}",
                 schema_.operands[operand].name, name(operand, entry));
  }
  all.bytes += read.bytes;
  lists_[operand].push_back({static_cast<std::byte*>(read.data), uint64_t(read.cols), read.bytes});
  return {};
}

Result<StoredTensor> ListArguments::read(World world, uint32_t operand,
                                         const sk_tensor* const* tensors) {
  if (tensors == nullptr && length_ > 0) {
    return error(SK_ERR_INVALID_ARGUMENT, "{} is null, and length is {}",
                 schema_.operands[operand].name, length_);
  }
  if (first_ < 0) first_ = int(operand);
  lists_[operand].reserve(length_);
  StoredTensor all;
  all.dtype = DType::kF32;
  for (size_t i = 0; i < length_; ++i) {
    SK_RETURN_IF_ERROR(read_entry(world, operand, i, tensors[i], all));
  }
  all.stride = all.cols;
  return all;
}

Status ListArguments::check_lengths() const {
  if (first_ < 0) return {};
  const std::vector<Entry>& wanted = lists_[size_t(first_)];
  for (size_t operand = size_t(first_) + 1; operand < schema_.operands.size(); ++operand) {
    const std::vector<Entry>& list = lists_[operand];
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i].count == wanted[i].count) continue;
      return error(SK_ERR_INVALID_ARGUMENT, "{} has {} elements, it must have {}, as {} has",
                   name(operand, i), list[i].count, wanted[i].count, name(size_t(first_), i));
    }
  }
  return {};
}

// In the order of addresses each may only begin behind what was written before it, and what is
// written behind all that was there before.
Status ListArguments::check_apart(std::span<const CallOperand> others) const {
  std::vector<Span> spans;
  for (size_t operand = 0; operand < schema_.operands.size(); ++operand) {
    const bool written = schema_.is_written(operand);
    const auto add = [&](const void* data, uint64_t bytes, size_t entry) {
      if (data != nullptr && bytes > 0) spans.push_back({data, bytes, operand, entry, written});
    };
    for (size_t i = 0; i < lists_[operand].size(); ++i)
      add(lists_[operand][i].data, lists_[operand][i].bytes, i);
    if (!schema_.operands[operand].list) add(others[operand].data, others[operand].bytes, 0);
  }
  std::ranges::stable_sort(spans, {}, &Span::begin);  // Of the same place in their own order.
  const Span *reaches = nullptr, *written = nullptr;  // Those that end last.
  for (const Span& span : spans) {
    const Span* before = span.written ? reaches : written;
    if (before != nullptr && span.begin() < before->end()) {
      return check::apart(name(before->operand, before->entry).c_str(), before->data, before->bytes,
                          name(span.operand, span.entry).c_str(), span.data, span.bytes);
    }
    if (reaches == nullptr || span.end() > reaches->end()) reaches = &span;
    if (span.written && (written == nullptr || span.end() > written->end())) written = &span;
  }
  return {};
}

std::shared_ptr<const Pieces> ListArguments::pieces() const {
  if (first_ < 0) return nullptr;
  auto out = std::make_shared<Pieces>();
  uint64_t end = 0;
  for (size_t i = 0; i < length_; ++i) {
    const uint64_t count = lists_[size_t(first_)][i].count;
    if (count == 0) continue;
    out->ends.push_back(end += count);
    for (size_t operand = 0; operand < schema_.operands.size(); ++operand) {
      if (!lists_[operand].empty()) out->data[operand].push_back(lists_[operand][i].data);
    }
  }
  for (size_t operand = 0; operand < schema_.operands.size(); ++operand) {
    const OperandSchema& is = schema_.operands[operand];
    if (!is.list || !is.only_in_place) continue;
    out->data[operand] = out->data[size_t(schema_.operand(is.alias) - schema_.operands.data())];
  }
  return out;
}

}  // namespace sk
