// Schemas as JSON: what bindings, reference pages and `sk ops` are made of.
#ifndef SK_LIB_OP_DESCRIBE_SCHEMA_H_
#define SK_LIB_OP_DESCRIBE_SCHEMA_H_

#include <string>

#include "lib/base/status.h"
#include "lib/op/schema.h"

namespace sk {

std::string describe_schema(const Schema& schema);

// Of all operations that callers may call, as an array; or of the one that is called `name`. One
// that none has gets a sentence with the nearest, or, where none is near, with all.
Result<std::string> describe_schemas(const char* name);

}  // namespace sk

#endif  // SK_LIB_OP_DESCRIBE_SCHEMA_H_
