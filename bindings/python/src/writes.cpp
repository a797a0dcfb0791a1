// Torch hears of its tensors that a call of the long way has overwritten, when the block of a
// `with` is left that the call is made in.
//
// The interpreter runs handlers of signals between any two steps of Python's code, and one may
// raise: between a write and the word of it, torch would never hear of it, and compute a gradient
// from what was overwritten. So that step is no code of Python's.
#include <nanobind/nanobind.h>

#include <utility>

#include "bindings.h"

namespace nb = nanobind;

namespace sk::python {
namespace {

class Writes {
 public:
  // `count` is told of the list, or, where it takes no lists, of one tensor after another.
  // `has_written`: whether a call that ended with an exception may have written.
  Writes(nb::list tensors, nb::object count, bool takes_lists, nb::object has_written)
      : tensors_(std::move(tensors)),
        count_(std::move(count)),
        has_written_(std::move(has_written)),
        takes_lists_(takes_lists) {}

  void enter() const {}

  void exit(nb::handle, nb::handle error, nb::handle) const {
    if (PyList_Size(tensors_.ptr()) == 0) return;
    if (!error.is_none()) {
      bool is_refused = false;
      try {
        is_refused = !nb::cast<bool>(contained([&] { return has_written_(error); }));
      } catch (nb::python_error&) {  // A handler's, of another signal.
        note();
        throw;
      }
      if (is_refused) return;
    }
    note();
  }

 private:
  void note() const {
    contained([&] {
      if (takes_lists_) {
        count_(tensors_);
      } else {
        for (const nb::handle tensor : tensors_) count_(tensor);
      }
    });
  }

  nb::list tensors_;
  nb::object count_, has_written_;
  bool takes_lists_;
};

}  // namespace

void bind_writes(nb::module_& module) {
  const auto any = nb::arg().none();
  nb::class_<Writes>(module, "Writes")
      .def(nb::init<nb::list, nb::object, bool, nb::object>())
      .def("__enter__", &Writes::enter)
      .def("__exit__", &Writes::exit, any, any, any);
}

}  // namespace sk::python
