#include "tests/multi/derived/given.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "lib/op/scope.h"
#include "lib/op/stored.h"
#include "lib/op/values.h"

namespace sk::derived {

Given::Given(sk_comm* comm, const Case& c, int64_t rank, Random& random)
    : comm_(comm), case_(c), rank_(rank), memory_(c.before[size_t(rank)]) {
  const OpDesc& op = c.shape.op;
  const Schema& schema = op.schema();
  symmetric_.resize(schema.operands.size());
  tensors_.resize(schema.operands.size());
  for (uint32_t i = 0; i < schema.operands.size(); ++i) {
    if (!op.symmetric(i)) continue;
    size_t bytes = 0;  // The same on every rank, whose operands begin at other offsets.
    for (const RankMemory& each : c.before) bytes = std::max(bytes, each.operands[i].bytes.size());
    EXPECT_EQ(sk_alloc(comm, bytes, &symmetric_[i]), SK_OK) << sk_last_error();
  }
  restore();
  lists_.resize(schema.operands.size());
  pointers_.resize(schema.operands.size());
  for (uint32_t i = 0; i < schema.operands.size(); ++i) {
    tensors_[i] = describe(i, random);
    if (schema.operands[i].list) describe_list(i, random);
  }
  const ArgLayout& layout = arg_layout(schema);
  const uint32_t size = layout.size();
  std::memcpy(args_.data(), &size, sizeof size);
  for (const ArgField& field : layout.fields()) {
    const uint32_t i = field.index;
    switch (field.kind) {
      case ArgField::kTensor:
        if (has(c.shape, i, rank) && op.storage(i) != Storage::kPackedB)
          put(field, static_cast<const sk_tensor*>(&tensors_[i]));
        break;
      case ArgField::kPacked:
        if (!has(c.shape, i, rank) || op.storage(i) != Storage::kPackedB) break;
        packed_.push_back(nullptr);
        EXPECT_EQ(sk_pack(comm, &tensors_[i], 0, &packed_.back()), SK_OK) << sk_last_error();
        put(field, packed_.back());
        break;
      case ArgField::kList:
        put(field, static_cast<const sk_tensor* const*>(pointers_[i].data()));
        break;
      case ArgField::kLength:
        put(field, int64_t(c.shape.lengths.size()));
        break;
      case ArgField::kInt32:
      case ArgField::kInt64:
      case ArgField::kDouble:
        put_number(field, schema.attributes[i].runtime ? c.shape.values[schema.run_value(i)]
                                                       : op[schema.attribute_field(i)]);
        break;
    }
  }
}

void Given::put_number(const ArgField& field, int64_t value) {
  if (field.kind == ArgField::kInt32) return put(field, int32_t(value));
  put(field, value);
}

void Given::put_other_values() {
  const Schema& schema = case_.shape.op.schema();
  for (const ArgField& field : arg_layout(schema).fields()) {
    if (!field.is_number() || !schema.attributes[field.index].runtime) continue;
    const int64_t value = case_.shape.values[schema.run_value(field.index)];
    const bool is_float = schema.attributes[field.index].kind == AttributeKind::kFloat;
    put_number(field, is_float ? bits_of(float_of(value) / 2) : value + 1);
  }
}

size_t Given::broken(const Shape& shape) {
  const auto found = std::ranges::find_if(shape.lengths, [](int64_t length) { return length > 0; });
  return found == shape.lengths.end() ? 0 : size_t(found - shape.lengths.begin());
}

Given::~Given() {
  for (sk_packed* each : packed_) EXPECT_EQ(sk_packed_free(each), SK_OK) << sk_last_error();
  for (void* each : symmetric_) {
    if (each == nullptr) continue;
    EXPECT_EQ(sk_free(comm_, each), SK_OK) << sk_last_error();
  }
}

void Given::restore() {
  for (size_t i = 0; i < symmetric_.size(); ++i) {
    const std::vector<std::byte>& from = case_.before[size_t(rank_)].operands[i].bytes;
    std::byte* to = symmetric_[i] != nullptr ? static_cast<std::byte*>(symmetric_[i])
                                             : memory_.operands[i].bytes.data();
    std::copy(from.begin(), from.end(), to);
  }
}

RankMemory Given::memory() const {
  RankMemory out = memory_;
  for (size_t i = 0; i < symmetric_.size(); ++i) {
    if (symmetric_[i] == nullptr) continue;
    std::vector<std::byte>& to = out.operands[i].bytes;
    std::copy_n(static_cast<const std::byte*>(symmetric_[i]), to.size(), to.begin());
  }
  return out;
}

std::byte* Given::data(uint32_t operand) {
  const Place place = place_of(case_.shape, operand, rank_);
  Memory& memory = memory_.operands[place.home];
  std::byte* base = symmetric_[place.home] != nullptr
                        ? static_cast<std::byte*>(symmetric_[place.home])
                        : memory.bytes.data();
  const auto element = int64_t(dtype_bytes(case_.shape.op.type(operand)));
  return base + memory.offset + place.first * element;
}

sk_tensor Given::describe(uint32_t operand, Random& random) {
  sk_tensor tensor{};
  const OpDesc& op = case_.shape.op;
  if (!has(case_.shape, operand, rank_)) return tensor;
  const auto world = uint32_t(case_.shape.setting.ranks);
  Stored how = stored(op, operand, world);
  if (how.storage == Storage::kPackedB) {
    const Array shape = shaped(op, world, op.schema().operands[operand].shape);
    how = {Storage::kRows, shape.rows, shape.columns, shape.columns, 0, {}};
  }
  tensor.struct_size = sizeof tensor;
  tensor.dtype = int32_t(op.type(operand));
  tensor.data = data(operand);
  tensor.ndim = 2;
  tensor.shape[0] = how.rows;
  tensor.shape[1] = how.columns;
  tensor.strides[0] = how.stride;
  tensor.strides[1] = 1;
  if (how.storage != Storage::kDense) return tensor;
  shape_vector(tensor, how.columns, random);
  return tensor;
}

void Given::describe_list(uint32_t operand, Random& random) {
  const sk_tensor whole = tensors_[operand];
  const size_t element = dtype_bytes(case_.shape.op.type(operand));
  int64_t first = 0;
  for (const int64_t length : case_.shape.lengths) {
    sk_tensor tensor = whole;
    const int64_t at = length == 0 ? 0 : listed_at(case_.shape, first);
    tensor.data = static_cast<std::byte*>(whole.data) + size_t(at) * element;
    shape_vector(tensor, length, random);
    if (length == 0 && random() % 2 == 0) tensor.data = nullptr;
    lists_[operand].push_back(tensor);
    first += length;
  }
  for (const sk_tensor& each : lists_[operand]) pointers_[operand].push_back(&each);
}

// A vector is a tensor of any shape.
void Given::shape_vector(sk_tensor& tensor, int64_t count, Random& random) {
  const bool halves = count % 2 == 0 && random() % 3 == 0;
  tensor.ndim = halves ? 2 : 1;
  tensor.shape[0] = halves ? 2 : count;
  tensor.shape[1] = tensor.strides[0] = count / 2;
  if (!halves) tensor.strides[0] = 1;
}

}  // namespace sk::derived
