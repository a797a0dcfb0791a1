#include "lib/comm/schema_arguments.h"

#include <cstring>
#include <limits>

#include "lib/comm/checks.h"
#include "lib/comm/list_arguments.h"
#include "lib/comm/tensor_arguments.h"
#include "lib/op/judge.h"
#include "lib/op/names.h"
#include "lib/op/ops/memory.h"
#include "lib/op/scope.h"
#include "lib/op/types.h"
#include "lib/op/values.h"

namespace sk {
namespace {

struct ArgsHead {
  uint32_t struct_size;
  int32_t op;
};

size_t axes_of(const OperandSchema& operand) {
  size_t axes = 0;
  for_each_axis(operand.shape, [&](std::string_view) { ++axes; });
  return axes;
}

// The caller's struct as this library's: what an older caller lacks is zero, what this library
// lacks must be (lib/base/structs.h).
class Args {
 public:
  Args(const Schema& schema, const void* from) : layout_(schema), from_(from) {}

  Status read(const char* name) {
    if (from_ == nullptr) return error(SK_ERR_INVALID_ARGUMENT, "args is null");
    ArgsHead head;
    std::memcpy(&head, from_, sizeof head);
    const uint32_t size = head.struct_size, known = layout_.size();
    if (size < sizeof head || size > kStructBytesMax || size % alignof(uint64_t) != 0) {
      return error(SK_ERR_INVALID_ARGUMENT,
                   "args.struct_size is {}, it must be sizeof(sk_{}_args) where the caller was "
                   "compiled (here it is {})",
                   size, name, known);
    }
    std::memcpy(bytes_.data(), from_, std::min(size, known));
    const auto* all = static_cast<const unsigned char*>(from_);
    for (uint32_t i = known; i < size; ++i) {
      if (all[i] == 0) continue;
      return error(SK_ERR_UNSUPPORTED,
                   "sk_{}_args: a field at byte {} is set that this version of libsk does not know",
                   name, i);
    }
    return {};
  }
  int32_t op() const { return value<int32_t>(ArgLayout::kOpOffset); }
  template <typename T>
  T value(uint32_t offset) const {
    T out;
    std::memcpy(static_cast<void*>(&out), bytes_.data() + offset, sizeof(T));
    return out;
  }
  const ArgLayout& layout() const { return layout_; }

 private:
  const ArgLayout layout_;
  const void* from_;
  std::array<unsigned char, ArgLayout::kFirstOffset + 8 * ArgLayout::kFieldsMax> bytes_{};
};

class Reader {
 public:
  Reader(World world, const Schema& schema, const Args& args, const PackedOperands& packed)
      : world_(world), schema_(schema), args_(args), packed_(packed), lists_(schema) {
    call_.op = OpDesc(schema);
  }

  Result<Call> read() {
    SK_RETURN_IF_ERROR(attributes());
    SK_RETURN_IF_ERROR(operands());
    SK_RETURN_IF_ERROR(types());
    SK_RETURN_IF_ERROR(dimensions());
    SK_RETURN_IF_ERROR(shapes());
    SK_RETURN_IF_ERROR(overlaps());
    const std::string mistake = mistake_in(call_.op, uint32_t(world_.size));
    if (!mistake.empty()) return error(SK_ERR_INVALID_ARGUMENT, "{}", mistake);
    if (schema_.has_lists()) call_.pieces = lists_.pieces();
    return std::move(call_);
  }

 private:
  enum class Came : uint8_t { kNot, kTensor, kPacked };
  struct Given {
    Came came = Came::kNot;
    StoredTensor tensor;
  };

  const OperandSchema& operand(size_t i) const { return schema_.operands[i]; }
  bool is_here(size_t i) const { return given_[i].came != Came::kNot; }

  Status attributes() {
    for (const ArgField& field : args_.layout().fields()) {
      if (!field.is_number()) continue;
      const Attribute& attribute = schema_.attributes[field.index];
      int64_t value = field.kind == ArgField::kInt32 ? args_.value<int32_t>(field.offset)
                                                     : args_.value<int64_t>(field.offset);
      const bool is_bool = attribute.kind == AttributeKind::kBool;
      if (is_bool && value != 0 && value != 1) {
        return error(SK_ERR_INVALID_ARGUMENT, "{} is {}, it must be 0 or 1", attribute.spoken(),
                     value);
      }
      if (attribute.kind == AttributeKind::kRank) {
        SK_RETURN_IF_ERROR(check::rank(attribute.spoken(), int32_t(value), world_.size));
      }
      if (attribute.kind == AttributeKind::kRedOp && !is_redop(int32_t(value))) {
        return error(SK_ERR_INVALID_ARGUMENT,
                     "{} is {}, it must be one of enum sk_redop (SK_SUM 1 to SK_AVG 5)",
                     attribute.spoken(), value);
      }
      // Of numbers from 0 on there is one zero: plans and their hashes go by bits.
      const bool no_sign = attribute.kind == AttributeKind::kFloat && attribute.lowest >= 0;
      if (no_sign && value == std::numeric_limits<int64_t>::min()) value = 0;
      if (attribute.runtime) {
        const std::string outside = outside_of(attribute, value, OpScope(call_.op, world_.size));
        if (!outside.empty()) return error(SK_ERR_INVALID_ARGUMENT, "{}", outside);
        call_.values[schema_.run_value(field.index)] = value;
      }
      call_.op.set(schema_.attribute_field(field.index), value);
    }
    return {};
  }

  Status operands() {
    for (const ArgField& field : args_.layout().fields()) {
      if (field.kind == ArgField::kTensor) {
        SK_RETURN_IF_ERROR(read_operand(field.index, args_.value<const sk_tensor*>(field.offset)));
      } else if (field.kind == ArgField::kLength) {
        SK_RETURN_IF_ERROR(lists_.take_length(args_.value<int64_t>(field.offset)));
      } else if (field.kind == ArgField::kList) {
        SK_RETURN_IF_ERROR(
            read_list(field.index, args_.value<const sk_tensor* const*>(field.offset)));
      }
    }
    return lists_.check_lengths();
  }
  Status read_list(uint32_t i, const sk_tensor* const* tensors) {
    SK_ASSIGN_OR_RETURN(given_[i].tensor, lists_.read(world_, i, tensors));
    given_[i].came = Came::kTensor;
    call_.op.set(OpDesc::type_field(i), int64_t(given_[i].tensor.dtype));
    return {};
  }
  Status read_operand(uint32_t i, const sk_tensor* tensor) {
    const OperandSchema& is = operand(i);
    if (!has_operand(call_.op, i, uint32_t(world_.rank))) return {};  // Another rank's.
    if (packed_[i] != nullptr) return read_packed(i, tensor);
    if (tensor == nullptr && is.optional) {
      call_.op.set(OpDesc::absent_field(i), 1);
      return {};
    }
    Given& given = given_[i];
    SK_ASSIGN_OR_RETURN(given.tensor, stored_tensor(world_, is.name, axes_of(is), tensor));
    given.came = Came::kTensor;
    call_.op.set(OpDesc::type_field(i), int64_t(given.tensor.dtype));
    call_.operands[i] = {given.tensor.data, given.tensor.bytes};
    if (const Field stride = schema_.stride_field(i)) {
      call_.op.set(OpDesc::storage_field(i), int64_t(Storage::kRows));
      call_.op.set(stride, given.tensor.stride);
    }
    return {};
  }
  Status read_packed(uint32_t i, const sk_tensor* tensor) {
    const char* name = operand(i).name;
    const Packed& packed = *packed_[i];
    if (tensor != nullptr) {
      return error(SK_ERR_INVALID_ARGUMENT, "give {0} either as {0} or as {0}_packed; both were",
                   name);
    }
    if (packed.device != world_.device) {
      return error(SK_ERR_INVALID_ARGUMENT,
                   "{}_packed holds weights for {}; the communicator is on {}", name,
                   check::device_text(packed.device), check::device_text(world_.device));
    }
    given_[i].came = Came::kPacked;
    call_.op.set(OpDesc::type_field(i), int64_t(packed.dtype));
    call_.op.set(OpDesc::storage_field(i), int64_t(Storage::kPackedB));
    if (operand(i).turned_by[0] != '\0') call_.op.set(schema_.field(operand(i).turned_by), 0);
    call_.operands[i] = {packed.data.get(), 0};
    return {};
  }

  // Operands that are not on this rank, or were left out, have the types that go with the others'.
  Status types() {
    for (uint32_t i = 0; i < schema_.operands.size(); ++i) {
      if (is_here(i) || call_.op.absent(i)) continue;
      for (uint32_t j = 0; j < schema_.operands.size(); ++j) {
        if (is_here(j) && operand(j).types == std::string_view(operand(i).name)) {
          call_.op.set(OpDesc::type_field(i), int64_t(call_.op.type(j)));
        }
      }
    }
    for (uint32_t i = 0; i < schema_.operands.size(); ++i) {
      if (!is_here(i)) call_.op.set(OpDesc::type_field(i), int64_t(type_of_missing(i)));
      const DType type = call_.op.type(i);
      if (may_have_type(call_.op, i, type)) continue;
      return error(SK_ERR_INVALID_ARGUMENT, "{} is {}, it must be {}", operand(i).name,
                   dtype_name(type), allowed_types(i));
    }
    return {};
  }
  DType type_of_missing(uint32_t i) const {
    const bool follows = schema_.operand(operand(i).types) != nullptr || call_.op.absent(i);
    return follows ? first_type(call_.op, i) : call_.op.type(i);
  }
  std::string allowed_types(uint32_t i) const {
    std::string text;
    for_each_type(operand(i).types, [&](std::string_view rule) {
      const std::string_view summed = summed_in(rule);
      const OperandSchema* other = schema_.operand(summed.empty() ? rule : summed);
      std::string each(rule);
      if (rule == "float") each = "f32, f64, bf16 or f16";
      if (other != nullptr) {
        const DType type = call_.op.type(uint32_t(other - schema_.operands.data()));
        each = summed.empty()
                   ? fmt::format("{}, as {} is", dtype_name(type), rule)
                   : fmt::format("{}, as sums of {}", dtype_name(accumulator(type)), other->name);
      }
      if (text.starts_with(fmt::format("{}, as ", each))) return;  // "x|f32" where x is f32.
      text += (text.empty() ? "" : ", or ") + each;
    });
    return text;
  }

  // A dimension is what the first operand has where it stands alone, or by the world's size.
  Status dimensions() {
    for (uint32_t i = 0; i < schema_.operands.size(); ++i) {
      if (!is_here(i)) continue;
      const std::array<int64_t, 2> extents = extents_of(i);
      size_t axis = axes_of(operand(i)) == 1 ? 1 : 0;
      Status status;
      for_each_axis(operand(i).shape, [&](std::string_view text) {
        if (status.ok()) status = bind(i, text, extents[axis]);
        ++axis;
      });
      SK_RETURN_IF_ERROR(std::move(status));
    }
    return {};
  }
  // In the order of the schema's shape. Of a vector the second one alone.
  std::array<int64_t, 2> extents_of(uint32_t i) const {
    if (given_[i].came == Came::kPacked) return {packed_[i]->k, packed_[i]->n};
    const StoredTensor& tensor = given_[i].tensor;
    if (flag(call_.op, operand(i).turned_by)) return {tensor.cols, tensor.rows};
    return {tensor.rows, tensor.cols};
  }
  Status bind(uint32_t i, std::string_view text, int64_t extent) {
    constexpr std::string_view kOfAll = "world * ";
    const bool of_all = text.starts_with(kOfAll);
    if (of_all) text.remove_prefix(kOfAll.size());
    for (size_t d = 0; d < schema_.dimensions.size(); ++d) {
      if (!names::is_called(text, schema_.dimensions[d].name) || (bound_ >> d & 1) != 0) continue;
      if (of_all && extent % world_.size != 0) {
        return error(SK_ERR_INVALID_ARGUMENT,
                     "{} has {} elements along {}, it must be a multiple of the {} ranks",
                     operand(i).name, extent, schema_.dimensions[d].name, world_.size);
      }
      call_.op.set(schema_.dimension_field(d), of_all ? extent / world_.size : extent);
      bound_ |= uint64_t{1} << d;
    }
    return {};
  }

  Status shapes() const {
    const OpScope scope(call_.op, world_.size);
    for (uint32_t i = 0; i < schema_.operands.size(); ++i) {
      if (!is_here(i)) continue;
      const std::array<int64_t, 2> extents = extents_of(i);
      const bool vector = axes_of(operand(i)) == 1;
      std::array<int64_t, 2> wanted = {1, 1};
      size_t axis = vector ? 1 : 0;
      for_each_axis(operand(i).shape, [&](std::string_view text) {
        const ExprValue value = evaluate(text, scope);
        wanted[axis++] = value.ok() ? value.value : -1;
      });
      if (wanted[1] == extents[1] && (vector || wanted[0] == extents[0])) continue;
      if (vector) {
        return error(SK_ERR_INVALID_ARGUMENT, "{} has {} elements, it must have {} ({})",
                     operand(i).name, extents[1], wanted[1], operand(i).shape);
      }
      const bool turned = flag(call_.op, operand(i).turned_by);
      return error(SK_ERR_INVALID_ARGUMENT, "{} has shape [{}, {}], it must be [{}, {}] ({}{})",
                   operand(i).name, extents[turned], extents[!turned], wanted[turned],
                   wanted[!turned], operand(i).shape, turned ? ", transposed" : "");
    }
    return {};
  }

  // What is written is apart from all else, or is another operand's memory as the schema allows.
  Status overlaps() {
    if (schema_.has_lists()) return lists_.check_apart(call_.operands);
    for (uint32_t i = 0; i < schema_.operands.size(); ++i) {
      for (uint32_t j = 0; j < i; ++j) {
        if (operand(i).role == Role::kIn && operand(j).role == Role::kIn) continue;
        SK_RETURN_IF_ERROR(overlap(j, i));
      }
    }
    for (uint32_t i = 0; i < schema_.operands.size(); ++i) {
      const bool part = operand(i).alias_at != std::string_view("0");
      if (call_.op.aliased(i) && part) call_.operands[i] = {};  // Its home is passed, once.
    }
    return {};
  }
  Status overlap(uint32_t a, uint32_t b) {
    const CallOperand &one = call_.operands[a], &other = call_.operands[b];
    if (one.bytes == 0 || other.bytes == 0 || one.data == nullptr || other.data == nullptr)
      return {};
    SK_ASSIGN_OR_RETURN(const bool here, is_in_place(a, b));
    if (here) return call_.op.set(OpDesc::aliased_field(a), 1), Status();
    SK_ASSIGN_OR_RETURN(const bool there, is_in_place(b, a));
    if (there) return call_.op.set(OpDesc::aliased_field(b), 1), Status();
    const bool may_be_one = operand(a).may_be_in == std::string_view(operand(b).name) ||
                            operand(b).may_be_in == std::string_view(operand(a).name);
    if (may_be_one && one.data == other.data && one.bytes == other.bytes) return {};
    return check::apart(operand(a).name, one.data, one.bytes, operand(b).name, other.data,
                        other.bytes);
  }
  // Whether operand `part` lies where in place it would, in `home`.
  Result<bool> is_in_place(uint32_t part, uint32_t home) const {
    if (operand(part).alias != std::string_view(operand(home).name)) return false;
    const OpScope scope(call_.op, world_.size, world_.rank);
    const ExprValue at = evaluate(operand(part).alias_at, scope);
    if (!at.ok() || at.value < 0)
      return error(SK_ERR_INTERNAL, "no place in {}", operand(home).name);
    const uint64_t offset = uint64_t(at.value) * dtype_bytes(call_.op.type(home));
    return call_.operands[part].data ==
           static_cast<const std::byte*>(call_.operands[home].data) + offset;
  }

  const World world_;
  const Schema& schema_;
  const Args& args_;
  const PackedOperands& packed_;
  Call call_;
  ListArguments lists_;
  std::array<Given, OpDesc::kOperandsMax> given_;
  uint64_t bound_ = 0;  // A bit for each dimension.
};

}  // namespace

Result<const Schema*> callable(int32_t op) {
  const Schema* schema = op == int32_t(OpKind(op)) ? schema_of(OpKind(op)) : nullptr;
  if (schema != nullptr && !is_of_memory(*schema)) return schema;
  std::string known;
  for (const Schema* each : all_schemas()) {
    if (is_of_memory(*each)) continue;
    known += fmt::format("{}{} {}", known.empty() ? "" : ", ", int(each->id), each->name);
  }
  return error(SK_ERR_INVALID_ARGUMENT, "op is {}, which is no operation: there are {}", op, known);
}

const void* packed_handle(const void* args, const ArgField& field) {
  if (args == nullptr || field.kind != ArgField::kPacked) return nullptr;
  ArgsHead head;
  std::memcpy(&head, args, sizeof head);
  const uint32_t end = field.offset + field.bytes();
  if (head.struct_size < end || head.struct_size > kStructBytesMax) return nullptr;
  const void* handle = nullptr;
  std::memcpy(static_cast<void*>(&handle), static_cast<const std::byte*>(args) + field.offset,
              sizeof(void*));
  return handle;
}

Result<Call> schema_call(World world, const Schema& schema, const void* given,
                         const PackedOperands& packed, const sk_run_options* options) {
  Args args(schema, given);
  SK_RETURN_IF_ERROR(args.read(schema.name));
  if (args.op() != 0 && args.op() != int32_t(schema.id)) {
    return error(SK_ERR_INVALID_ARGUMENT, "args.operation is {}, and op is {} ({})", args.op(),
                 int(schema.id), schema.name);
  }
  SK_ASSIGN_OR_RETURN(Call call, Reader(world, schema, args, packed).read());
  SK_RETURN_IF_ERROR(take_options(world, options, call));
  return call;
}

}  // namespace sk
