// The extension module libsk._core: the C ABI as Python sees it, without manners. The package's
// Python files give it arrays, names and documentation.
#include <nanobind/nanobind.h>

#include "bindings.h"
#include "blocking.h"
#include "plain_array.h"
#include "sk/base.h"
#include "tensors.h"

namespace nb = nanobind;

// The entry that NB_MODULE makes gets another name, for it forgets what the interpreter before
// knew: a second one of the process is refused in front of it.
#define PyInit__core make_module
NB_MODULE(_core, module) {
  // Communicators may live until the process ends; that is no leak worth a message.
  nb::set_leak_warnings(false);
  module.def("version", [] { return sk_version(); });
  module.def("status_name", [](int32_t status) { return sk_status_name(status); });
  sk::python::prepare_blocking();
  sk::python::bind_plain_array(module);
  sk::python::bind_tensors(module);
  sk::python::bind_comm(module);
  sk::python::bind_ready(module);
  sk::python::bind_collectives(module);
  sk::python::bind_local(module);
  sk::python::bind_local_op(module);
  sk::python::bind_list_op(module);
  sk::python::bind_products(module);
  sk::python::bind_plan(module);
  sk::python::bind_dlpack(module);
  sk::python::bind_session(module);
  sk::python::bind_tile(module);
  sk::python::bind_topo(module);
  sk::python::bind_worker(module);
  sk::python::bind_writes(module);
}
#undef PyInit__core

extern "C" NB_EXPORT PyObject* PyInit__core();
extern "C" PyObject* PyInit__core() {
  // By its number, for the stable ABI names no other way: the first one made is the main one.
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) == 0) return make_module();
  PyErr_SetString(PyExc_ImportError,
                  "libsk works in the main interpreter of a process only, not in subinterpreters");
  return nullptr;
}
