// The variables of libsk, as docs/env.md has them, and what makes sense in each.
#ifndef SK_TOOLS_SK_DOCTOR_VARIABLES_H_
#define SK_TOOLS_SK_DOCTOR_VARIABLES_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/status.h"
#include "tools/sk_doctor/checks.h"

namespace sk::doctor {

enum class Reader : uint8_t { kRanks, kRanksOfHosts, kNotebooks };

struct Variable {
  const char* name;
  Reader reader;
  // By the parser of whoever reads it. Null: any text makes sense, or another check says more.
  Status (*check)(const std::string& text);
};

std::span<const Variable> variables();

// Where it is not, a value without sense is in nobody's way today.
bool is_read_in(Reader reader, Run run);

bool is_known_variable(std::string_view name);
// Of these only that they are set leaves this process.
bool is_secret(std::string_view name);

}  // namespace sk::doctor

#endif  // SK_TOOLS_SK_DOCTOR_VARIABLES_H_
