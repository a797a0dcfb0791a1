// A function of Python's as a tile's, sk_tile_fn.
#ifndef LIBSK_PYTHON_TILE_FUNCTION_H_
#define LIBSK_PYTHON_TILE_FUNCTION_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sk/tile.h"

namespace sk::python {

// Not by ctypes: a signal's exception that comes at the edge of a call of ctypes is printed and
// forgotten. Here it is the call's, wherever it comes.
class TileFunction {
 public:
  // `call` is called with three tuples: addresses; (rows, columns, stride, element type) of each;
  // parameters, of which `floats` says which are floats.
  TileFunction(std::string name, nanobind::object call, uint32_t regions, std::vector<bool> floats);

  uintptr_t address() const;
  uintptr_t user() const { return reinterpret_cast<uintptr_t>(this); }
  // What it raised last; None where it did not since this was asked. With the lock.
  nanobind::object take_raised();
  // The name of the one that this thread is inside of; null outside.
  static const char* inside();

 private:
  static int32_t run(void* const* data, const sk_tile_view* views, const sk_tile_value* values,
                     void* user);
  bool call(void* const* data, const sk_tile_view* views, const sk_tile_value* values);

  std::string name_;
  nanobind::object call_;
  uint32_t regions_;
  std::vector<bool> floats_;
  nanobind::object raised_;
};

void bind_tile_function(nanobind::module_& module);

}  // namespace sk::python

#endif  // LIBSK_PYTHON_TILE_FUNCTION_H_
