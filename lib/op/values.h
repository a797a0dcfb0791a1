// Values of attributes: in words, and within what a schema allows.
#ifndef SK_LIB_OP_VALUES_H_
#define SK_LIB_OP_VALUES_H_

#include <bit>
#include <string>

#include "lib/op/scope.h"

namespace sk {

constexpr double float_of(int64_t bits) { return std::bit_cast<double>(bits); }
constexpr int64_t bits_of(double value) { return std::bit_cast<int64_t>(value); }

// "true", "3", "sum", "1e-05".
std::string value_text(const Attribute& attribute, int64_t value);

// "" where a number is within its bounds, else "eps is nan, allowed are 0 to inf".
std::string outside_of(const Attribute& attribute, int64_t value, const OpScope& scope);

}  // namespace sk

#endif  // SK_LIB_OP_VALUES_H_
