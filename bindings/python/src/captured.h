// The descriptors whose text goes to the notebook: what is written there keeps its order, and what
// a cell makes of them holds for that cell.
#ifndef LIBSK_PYTHON_CAPTURED_H_
#define LIBSK_PYTHON_CAPTURED_H_

#include <nanobind/nanobind.h>

namespace sk::python {

// Where 0, 1 and 2 lead now is where they lead after each cell.
void keep_descriptors();
void bind_captured(nanobind::module_& module);

}  // namespace sk::python

#endif  // LIBSK_PYTHON_CAPTURED_H_
