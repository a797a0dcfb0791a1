// The extension module libsk._core: the C ABI as Python sees it, without manners. The package's
// Python files give it arrays, names and documentation.
#include <nanobind/nanobind.h>

#include "bindings.h"
#include "sk/base.h"

namespace nb = nanobind;

NB_MODULE(_core, module) {
  // Communicators may live until the process ends; that is no leak worth a message.
  nb::set_leak_warnings(false);
  module.def("version", [] { return sk_version(); });
  module.def("status_name", [](int32_t status) { return sk_status_name(status); });
  sk::python::bind_comm(module);
  sk::python::bind_plan(module);
  sk::python::bind_dlpack(module);
  sk::python::bind_topo(module);
  sk::python::bind_worker(module);
}
