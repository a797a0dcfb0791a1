// Arrays of other libraries, through DLPack: where their memory lies and what it holds.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstring>

#include "bindings.h"
#include "sk/op.h"

namespace nb = nanobind;

namespace sk::python {
namespace {

// DLPack's two managed tensors, by its specification (versions 0.x and 1.x).
struct ManagedTensor {
  nb::dlpack::dltensor tensor;
  void* context;
  void (*release)(ManagedTensor*);
};

struct ManagedTensorVersioned {
  uint32_t major;
  uint32_t minor;
  void* context;
  void (*release)(ManagedTensorVersioned*);
  uint64_t flags;
  nb::dlpack::dltensor tensor;
};

constexpr uint64_t kReadOnly = 1;

// Owns the exporter's tensor until Python drops this object.
class Borrowed {
 public:
  explicit Borrowed(nb::handle capsule) {
    if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
      versioned_ = static_cast<ManagedTensorVersioned*>(
          PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
      if (versioned_->major > 1) throw nb::buffer_error("DLPack of a later major version than 1");
      PyCapsule_SetName(capsule.ptr(), "used_dltensor_versioned");
    } else if (PyCapsule_IsValid(capsule.ptr(), "dltensor")) {
      plain_ = static_cast<ManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
      PyCapsule_SetName(capsule.ptr(), "used_dltensor");
    } else {
      throw nb::type_error("__dlpack__() did not return an unused DLPack capsule");
    }
  }
  ~Borrowed() {
    if (versioned_ != nullptr && versioned_->release != nullptr) versioned_->release(versioned_);
    if (plain_ != nullptr && plain_->release != nullptr) plain_->release(plain_);
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

  const nb::dlpack::dltensor& tensor() const {
    return versioned_ != nullptr ? versioned_->tensor : plain_->tensor;
  }
  uintptr_t address() const {
    return reinterpret_cast<uintptr_t>(tensor().data) + tensor().byte_offset;
  }
  nb::tuple shape() const { return extents(tensor().shape); }
  // In elements; None stands for row-major.
  nb::object strides() const {
    return tensor().strides == nullptr ? nb::none() : nb::object(extents(tensor().strides));
  }
  nb::tuple dtype() const {
    const nb::dlpack::dtype dtype = tensor().dtype;
    return nb::make_tuple(int(dtype.code), int(dtype.bits), int(dtype.lanes));
  }
  nb::tuple device() const {
    return nb::make_tuple(tensor().device.device_type, tensor().device.device_id);
  }
  // Version 0 has no flag for it; its exporters refuse to export what is read-only.
  bool read_only() const { return versioned_ != nullptr && (versioned_->flags & kReadOnly) != 0; }

 private:
  nb::tuple extents(const int64_t* values) const {
    nb::list out;
    for (int32_t i = 0; i < tensor().ndim; ++i) out.append(values[i]);
    return nb::tuple(out);
  }

  ManagedTensorVersioned* versioned_ = nullptr;
  ManagedTensor* plain_ = nullptr;
};

// The short way for what is common: address, shape, element type and read-only flag of a row-major
// array of a plain type; None for everything else, which libsk/_arrays.py looks at in its own time.
nb::object describe(nb::handle array) {
  Py_buffer view;
  if (PyObject_GetBuffer(array.ptr(), &view, PyBUF_ND | PyBUF_FORMAT) != 0) {
    PyErr_Clear();  // Not row-major, or a type that the buffer protocol has no letter for.
    return nb::none();
  }
  int code = 0;
  if (view.format != nullptr && view.format[0] != '\0' && view.format[1] == '\0') {
    switch (view.format[0]) {
      case 'f':
        code = SK_F32;
        break;
      case 'd':
        code = SK_F64;
        break;
      case 'e':
        code = SK_F16;
        break;
      case 'i':
        code = SK_I32;
        break;
      case 'l':
      case 'q':
        code = view.itemsize == 8 ? SK_I64 : SK_I32;
        break;
      default:
        break;
    }
  }
  const auto address = reinterpret_cast<uintptr_t>(view.buf);
  nb::object result = nb::none();
  if (code != 0 && address % size_t(view.itemsize) == 0) {
    nb::list shape;
    for (int i = 0; i < view.ndim; ++i) shape.append(view.shape[i]);
    result = nb::make_tuple(address, nb::tuple(shape), code, bool(view.readonly));
  }
  PyBuffer_Release(&view);  // The caller holds the array itself.
  return result;
}

}  // namespace

void bind_dlpack(nb::module_& module) {
  module.def("describe", &describe);
  nb::class_<Borrowed>(module, "Borrowed")
      .def(nb::init<nb::handle>())
      .def_prop_ro("address", &Borrowed::address)
      .def_prop_ro("shape", &Borrowed::shape)
      .def_prop_ro("strides", &Borrowed::strides)
      .def_prop_ro("dtype", &Borrowed::dtype)
      .def_prop_ro("device", &Borrowed::device)
      .def_prop_ro("read_only", &Borrowed::read_only);
}

}  // namespace sk::python
