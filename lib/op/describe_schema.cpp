#include "lib/op/describe_schema.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "lib/op/call_layout.h"
#include "lib/op/ops/memory.h"

namespace sk {
namespace {

// Texts of schemas are printable ASCII.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

class Object {
 public:
  Object& text(const char* name, std::string_view value) { return raw(name, quoted(value)); }
  // What is not said is left out.
  Object& said(const char* name, std::string_view value) {
    return value.empty() ? *this : text(name, value);
  }
  Object& flag(const char* name, bool value) { return value ? raw(name, "true") : *this; }
  Object& number(const char* name, int64_t value) { return raw(name, fmt::to_string(value)); }
  Object& raw(const char* name, std::string_view value) {
    text_ += fmt::format("{}{}: {}", text_.empty() ? "" : ", ", quoted(name), value);
    return *this;
  }
  std::string done() const { return "{" + text_ + "}"; }

 private:
  std::string text_;
};

template <typename All, typename One>
std::string array(const All& all, const One& one) {
  std::string text;
  for (const auto& each : all) text += (text.empty() ? "" : ", ") + one(each);
  return "[" + text + "]";
}

const char* scope_name(Scope scope) {
  switch (scope) {
    case Scope::kAll:
      return "all";
    case Scope::kPair:
      return "pair";
    case Scope::kLocal:
      return "local";
  }
  return "?";
}

const char* kind_name(AttributeKind kind) {
  switch (kind) {
    case AttributeKind::kBool:
      return "bool";
    case AttributeKind::kRank:
      return "rank";
    case AttributeKind::kRedOp:
      return "redop";
    case AttributeKind::kInt:
      return "int";
    case AttributeKind::kFloat:
      return "float";
  }
  return "?";
}

std::string operand_text(const OperandSchema& is) {
  return Object()
      .text("name", is.name)
      .text("role", is.role == Role::kIn ? "in" : "out")
      .text("types", is.types)
      .text("shape", is.shape)
      .flag("optional", is.optional)
      .flag("list", is.list)
      .flag("only_in_place", is.only_in_place)
      .flag("not_negative", is.not_negative)
      .flag("rows", is.may_be(Storage::kRows))
      .flag("packed", is.may_be(Storage::kPackedB))
      .flag("reached", is.reached)
      .said("turned_by", is.turned_by)
      .said("only_on", is.only_on)
      .said("alias", is.alias)
      .said("alias_at", is.alias[0] == '\0' ? "" : is.alias_at)
      .said("may_be_in", is.may_be_in)
      .said("doc", is.doc)
      .done();
}

std::string attribute_text(const Attribute& is) {
  Object object;
  object.text("name", is.name).text("kind", kind_name(is.kind)).said("label", is.label);
  object.said("least", is.least).said("most", is.most);
  if (is.kind == AttributeKind::kFloat) {  // JSON knows no infinity: as texts.
    object.text("lowest", fmt::format("{}", is.lowest));
    object.text("highest", fmt::format("{}", is.highest));
  }
  return object.flag("runtime", is.runtime)
      .said("suggested", is.suggested)
      .said("doc", is.doc)
      .done();
}

std::string dimension_text(const Dimension& is) {
  return Object().text("name", is.name).said("doc", is.doc).done();
}

std::string condition_text(const Condition& is) {
  return Object().text("holds", is.holds).text("sentence", is.sentence).done();
}

const char* field_kind(ArgField::Kind kind) {
  switch (kind) {
    case ArgField::kTensor:
      return "tensor";
    case ArgField::kPacked:
      return "packed";
    case ArgField::kList:
      return "list";
    case ArgField::kLength:
      return "length";
    case ArgField::kInt32:
      return "int32";
    case ArgField::kInt64:
      return "int64";
    case ArgField::kDouble:
      return "double";
  }
  return "?";
}

// The struct of arguments, in its order.
std::string layout_text(const Schema& schema) {
  const ArgLayout layout(schema);
  return array(layout.fields(), [&](const ArgField& field) {
    const char* of =
        field.is_number() ? schema.attributes[field.index].name : schema.operands[field.index].name;
    return Object()
        .text("of", field.kind == ArgField::kLength ? "length" : of)
        .text("kind", field_kind(field.kind))
        .number("offset", field.offset)
        .done();
  });
}

size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = std::exchange(row[j], std::min({replaced, row[j] + 1, row[j - 1] + 1}));
    }
  }
  return row[b.size()];
}

std::vector<const Schema*> callables() {
  std::vector<const Schema*> out;
  for (const Schema* each : all_schemas()) {
    if (!is_of_memory(*each)) out.push_back(each);
  }
  return out;
}

}  // namespace

std::string describe_schema(const Schema& schema) {
  Object object;
  object.text("name", schema.name).number("id", int64_t(schema.id));
  object.text("scope", scope_name(schema.scope)).said("summary", schema.summary);
  object.said("source", schema.source);
  object.raw("dimensions", array(schema.dimensions, dimension_text));
  object.raw("operands", array(schema.operands, operand_text));
  object.raw("attributes", array(schema.attributes, attribute_text));
  object.raw("conditions", array(schema.conditions, condition_text));
  object.raw("fields", layout_text(schema)).number("bytes", ArgLayout(schema).size());
  if (schema.meaning != nullptr) {
    // The text that its steps were read from, a literal, begins with the first one's name.
    const std::string_view first = (*schema.meaning)[0].out.array;
    // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage): it ends where the literal does.
    object.text("meaning", first.data());
  }
  return object.done();
}

Result<std::string> describe_schemas(const char* name) {
  const std::vector<const Schema*> all = callables();
  if (name == nullptr) {
    return array(all, [](const Schema* each) { return describe_schema(*each); });
  }
  for (const Schema* each : all) {
    if (name == std::string_view(each->name)) return describe_schema(*each);
  }
  const std::string_view wanted = std::string_view(name).substr(0, 64);
  std::string names;
  const Schema* nearest = all.front();
  for (const Schema* each : all) {
    names += names.empty() ? each->name : std::string(", ") + each->name;
    if (distance(each->name, wanted) < distance(nearest->name, wanted)) nearest = each;
  }
  // A slip is a letter in three or four; what is further off is another word.
  if (distance(nearest->name, wanted) > std::max<size_t>(1, wanted.size() / 3)) {
    return error(SK_ERR_INVALID_ARGUMENT, "no operation is called \"{}\"; there are {}", wanted,
                 names);
  }
  return error(SK_ERR_INVALID_ARGUMENT, "no operation is called \"{}\"; did you mean {}?", wanted,
               nearest->name);
}

}  // namespace sk
