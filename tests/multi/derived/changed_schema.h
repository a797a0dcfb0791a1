// What a schema could wrongly say, one thing at a time: shapes, types, conditions, bounds, places,
// and what it means.
#ifndef SK_TESTS_MULTI_DERIVED_CHANGED_SCHEMA_H_
#define SK_TESTS_MULTI_DERIVED_CHANGED_SCHEMA_H_

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "lib/op/schema.h"

namespace sk::derived {

// A copy with its own tables. It has the words of the original, so that calls are calls of both.
class ChangedSchema {
 public:
  ChangedSchema(const Schema& right, std::string what);
  ChangedSchema(const ChangedSchema&) = delete;
  ChangedSchema& operator=(const ChangedSchema&) = delete;

  const Schema& schema() const { return schema_; }
  const std::string& what() const { return what_; }
  // The same call of this one.
  OpDesc as_called(const OpDesc& op) const { return called(op, schema_); }
  // And back.
  static OpDesc called(const OpDesc& op, const Schema& as);

  std::vector<OperandSchema> operands;
  std::vector<Attribute> attributes;
  std::vector<Condition> conditions;
  Steps meaning;
  const char* keep(std::string text) { return texts_.emplace_back(std::move(text)).c_str(); }

 private:
  const std::string what_;
  std::deque<std::string> texts_;
  Schema schema_;
};

using ChangedSchemas = std::vector<std::unique_ptr<ChangedSchema>>;
// Of what is inferred of a call, and of what it means.
ChangedSchemas changed_rules(const Schema& right);
ChangedSchemas changed_meanings(const Schema& right);

}  // namespace sk::derived

#endif  // SK_TESTS_MULTI_DERIVED_CHANGED_SCHEMA_H_
