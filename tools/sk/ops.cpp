// `sk ops`: which operations there are, and what one of them is.
#include <fmt/format.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "lib/op/describe_schema.h"
#include "tools/sk/verbs.h"

namespace {

using sk::Attribute;
using sk::OperandSchema;
using sk::Schema;

constexpr char kUsage[] =
    "usage: sk ops [--json] [NAME]\n\n"
    "Without a name: all operations, a line for each. With one: its operands, attributes and\n"
    "meaning. --json: the same as sk_op_describe() gives it.\n";

std::string first_sentence(const char* text) {
  const std::string all = text;
  return all.substr(0, all.find(". "));
}

void list() {
  for (const Schema* schema : sk::all_schemas()) {
    if (schema->id >= sk::OpKind::kAlloc) continue;
    fmt::print("{:<18} {}\n", schema->name, first_sentence(schema->summary));
  }
}

void show_operand(const OperandSchema& is) {
  std::string more;
  const auto note = [&](const std::string& text) { more += ", " + text; };
  if (is.list) note("a list of tensors");
  if (is.not_negative) note("0 or more");
  if (is.optional) note("may be left out");
  if (is.turned_by[0] != '\0') note(fmt::format("transposed with {}", is.turned_by));
  if (is.may_be(sk::Storage::kPackedB)) note("or packed");
  if (is.only_on[0] != '\0') note(fmt::format("of rank {} alone", is.only_on));
  if (is.alias[0] != '\0') {
    const bool whole = std::strcmp(is.alias_at, "0") == 0;
    note(fmt::format("{} {}{}", is.only_in_place ? "always in the place of" : "may be", is.alias,
                     whole ? "" : fmt::format(" + {}", is.alias_at)));
  }
  if (is.doc[0] != '\0') note(is.doc);
  const char* role = is.role == sk::Role::kIn ? "in" : "out";
  fmt::print("  {:<4} {:<10} [{}] {}{}\n", role, is.name, is.shape, is.types, more);
}

void show_attribute(const Attribute& is) {
  std::string more = is.doc[0] == '\0' ? "" : fmt::format(", {}", is.doc);
  if (is.suggested[0] != '\0') more += fmt::format(", usually {}", is.suggested);
  if (is.runtime) more += ", another one is no other plan";
  constexpr const char* kKinds[] = {"bool", "rank", "redop", "int", "float"};
  fmt::print("  {:<15} {}{}\n", is.name, kKinds[size_t(is.kind)], more);
}

void show(const Schema& schema) {
  fmt::print("{} ({})\n\n{}\n", schema.name, int(schema.id), schema.summary);
  if (schema.scope == sk::Scope::kLocal) fmt::print("Local: no other rank takes part.\n");
  for (const sk::Condition& each : schema.conditions) fmt::print("It asks: {}.\n", each.sentence);
  if (!schema.operands.empty()) fmt::print("\nOperands\n");
  for (const OperandSchema& each : schema.operands) show_operand(each);
  if (!schema.attributes.empty()) fmt::print("\nAttributes\n");
  for (const Attribute& each : schema.attributes) show_attribute(each);
  if (schema.source[0] != '\0') fmt::print("\nSource: {}\n", schema.source);
}

}  // namespace

int run_ops(int argc, char** argv) {
  bool json = false;
  const char* name = nullptr;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) {
      json = true;
    } else if (argv[i][0] == '-' || name != nullptr) {
      const bool help = std::strcmp(argv[i], "--help") == 0 || std::strcmp(argv[i], "-h") == 0;
      std::fputs(kUsage, help ? stdout : stderr);
      return help ? 0 : 2;
    } else {
      name = argv[i];
    }
  }
  const auto text = sk::describe_schemas(name);
  if (!text.ok()) {
    fmt::print(stderr, "sk ops: {}\n", text.status().message());
    return 2;
  }
  if (json) {
    fmt::print("{}\n", text.value());
  } else if (name == nullptr) {
    list();
  } else {
    show(*sk::schema_of(std::string_view(name)));
  }
  return 0;
}
