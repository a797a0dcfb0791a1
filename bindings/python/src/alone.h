// What the short ways of operations that this process does alone share: numbers of the common kind,
// and the call itself.
#ifndef LIBSK_PYTHON_ALONE_H_
#define LIBSK_PYTHON_ALONE_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <tuple>
#include <vector>

#include "call_struct.h"
#include "context.h"

namespace sk::python {

enum class Number : uint8_t { kFloat = 0, kBool = 1, kInteger = 2 };
using NumberRow = std::tuple<uint32_t, uint8_t, uint32_t>;  // Where, Number, bytes.

// Writes as many values as there are rows; false where one is no plain number of its kind.
bool read_numbers(const std::vector<NumberRow>& rows, const nanobind::tuple& values,
                  CallStruct* args);

// Whether the call was done: what the library refuses has changed nothing.
bool take_alone(const Context& context, int32_t op, const CallStruct& args);

}  // namespace sk::python

#endif  // LIBSK_PYTHON_ALONE_H_
