#include "lib/plan/text_words.h"

#include <iterator>

namespace sk::text {
namespace {

constexpr const char* kStorageNames[] = {"dense", "rows", "packed"};  // By enum Storage.

enum class WordKind : uint8_t { kInteger, kFlag, kFloat, kType, kRedOp, kStorage };

// `visit(name, field, kind)` for each field that `schema` has.
template <typename Visitor>
void for_each_word(const Schema& schema, Visitor&& visit) {
  for (size_t i = 0; i < schema.dimensions.size(); ++i) {
    visit(schema.dimensions[i].name, schema.dimension_field(i), WordKind::kInteger);
  }
  for (size_t i = 0; i < schema.attributes.size(); ++i) {
    if (schema.attributes[i].runtime) continue;  // Of runs.
    const AttributeKind kind = schema.attributes[i].kind;
    visit(schema.attributes[i].name, schema.attribute_field(i),
          kind == AttributeKind::kBool    ? WordKind::kFlag
          : kind == AttributeKind::kFloat ? WordKind::kFloat
          : kind == AttributeKind::kRedOp ? WordKind::kRedOp
                                          : WordKind::kInteger);
  }
  for (uint32_t i = 0; i < schema.operands.size(); ++i) {
    const OperandSchema& operand = schema.operands[i];
    const auto word = [&](const char* what, Field field, WordKind kind) {
      visit(fmt::format("{}.{}", operand.name, what), field, kind);
    };
    if (operand.optional) word("absent", OpDesc::absent_field(i), WordKind::kFlag);
    word("dtype", OpDesc::type_field(i), WordKind::kType);
    if (operand.storage != operand.or_storage) {
      word("storage", OpDesc::storage_field(i), WordKind::kStorage);
    }
    if (const Field stride = schema.stride_field(i)) word("stride", stride, WordKind::kInteger);
    if (operand.reached) word("symmetric", OpDesc::symmetric_field(i), WordKind::kFlag);
    if (operand.alias[0] != '\0') word("in_place", OpDesc::aliased_field(i), WordKind::kFlag);
  }
}

std::string written(WordKind kind, int64_t value) {
  switch (kind) {
    case WordKind::kType:
      if (is_dtype(int32_t(value))) return dtype_name(DType(value));
      break;
    case WordKind::kRedOp:
      if (is_redop(int32_t(value))) return redop_name(RedOp(value));
      break;
    case WordKind::kStorage:
      if (size_t(value) < std::size(kStorageNames)) return kStorageNames[value];
      break;
    case WordKind::kFloat:
      return float_text(value);
    case WordKind::kInteger:
    case WordKind::kFlag:
      break;
  }
  return fmt::to_string(value);
}

class WordReader {
 public:
  WordReader(Reader& reader, OpDesc& op) : reader_(reader), op_(op) {}

  void operator()(const std::string& name, Field field, WordKind kind) {
    if (!status.ok()) return;
    status = read(name, field, kind);
    reader_.skip_spaces();
  }

  Status status = {};

 private:
  Status read(const std::string& name, Field field, WordKind kind) {
    if (!reader_.take(name) || !reader_.take("=")) return reader_.fail("expected {}=", name);
    int64_t value = 0;
    if (kind == WordKind::kFloat) {
      SK_RETURN_IF_ERROR(reader_.take_float(value, name.c_str()));
    } else if (!take_known(kind, value)) {
      SK_RETURN_IF_ERROR(reader_.take_number(value, name.c_str()));
    }
    op_.set(field, value);
    if (op_[field] == value) return {};
    return reader_.fail("{} is {}, which has no place there", name, value);
  }
  bool take_known(WordKind kind, int64_t& value) {
    if (kind == WordKind::kInteger || kind == WordKind::kFlag) return false;
    for (value = 0; value <= kKnownMax; ++value) {
      const std::string word = written(kind, value);
      if (word != fmt::to_string(value) && reader_.take_word(word)) return true;
    }
    return false;
  }
  static constexpr int64_t kKnownMax = 16;  // Types, reductions and storages are fewer.

  Reader& reader_;
  OpDesc& op_;
};

}  // namespace

std::string op_words(const OpDesc& op) {
  std::string text;
  for_each_word(op.schema(), [&](const std::string& name, Field field, WordKind kind) {
    text += fmt::format(" {}={}", name, written(kind, op[field]));
  });
  return text;
}

Result<OpDesc> read_op_words(const Schema& schema, Reader& reader) {
  OpDesc op(schema);
  WordReader words(reader, op);
  for_each_word(schema, words);
  SK_RETURN_IF_ERROR(std::move(words.status));
  return op;
}

std::string value_text(const Parameter& parameter, int64_t value) {
  if (parameter.kind == ParamKind::kFloat) return float_text(value);
  const std::string_view word = parameter.word(value);
  return word.empty() ? fmt::to_string(value) : std::string(word);
}

}  // namespace sk::text
