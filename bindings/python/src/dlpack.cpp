// DLPack: where the memory of other libraries' arrays lies and what it holds, and ours for them.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "gil.h"
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

constexpr uint64_t kReadOnly = 1, kIsCopy = 2;

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
    if (tensor().ndim < 0 || (tensor().ndim > 0 && tensor().shape == nullptr)) {
      release();  // The destructor of what was never made does not run.
      throw nb::buffer_error("the DLPack capsule has no shape");
    }
  }
  ~Borrowed() { release(); }
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
  // Whether this is a copy that the exporter made: what is written there nobody sees.
  bool is_copy() const { return versioned_ != nullptr && (versioned_->flags & kIsCopy) != 0; }

 private:
  void release() {
    if (versioned_ != nullptr && versioned_->release != nullptr) versioned_->release(versioned_);
    if (plain_ != nullptr && plain_->release != nullptr) plain_->release(plain_);
  }
  nb::tuple extents(const int64_t* values) const {
    nb::list out;
    for (int32_t i = 0; i < tensor().ndim; ++i) out.append(values[i]);
    return nb::tuple(out);
  }

  ManagedTensorVersioned* versioned_ = nullptr;
  ManagedTensor* plain_ = nullptr;
};

// Memory of this library for another one, which frees this when it needs it no more.
template <typename Managed>
struct Exported {
  Managed managed{};
  std::vector<int64_t> shape;
  PyObject* owner = nullptr;  // What keeps the memory.
};

template <typename Managed>
void release_exported(Managed* managed) {
  if (managed == nullptr) return;
  auto* const exported = static_cast<Exported<Managed>*>(managed->context);
  if (Py_IsInitialized()) {  // Else nothing is left that could be told.
    const GilAcquired gil;
    Py_DECREF(exported->owner);
  }
  delete exported;
}

// Of a capsule that nobody has used.
template <typename Managed>
void drop_capsule(PyObject* capsule) {
  const char* const name = PyCapsule_GetName(capsule);
  if (name == nullptr || std::strncmp(name, "used_", 5) == 0) return;
  release_exported(static_cast<Managed*>(PyCapsule_GetPointer(capsule, name)));
}

template <typename Managed>
nb::object capsule_of(std::unique_ptr<Exported<Managed>> exported, const char* name) {
  Managed& managed = exported->managed;
  managed.context = exported.get();
  managed.release = &release_exported<Managed>;
  PyObject* const capsule = PyCapsule_New(&managed, name, &drop_capsule<Managed>);
  if (capsule == nullptr) throw nb::python_error();
  Py_INCREF(exported->owner);
  exported.release();  // Now the capsule's.
  return nb::steal(capsule);
}

// Row-major memory as a capsule of DLPack 1.0, or of the version before.
nb::object lend(uintptr_t address, const std::vector<int64_t>& shape,
                std::tuple<uint8_t, uint8_t> dtype, std::tuple<int32_t, int32_t> device,
                nb::handle owner, bool versioned) {
  const auto fill = [&]<typename Managed>(Exported<Managed>& exported) {
    exported.shape = shape;
    exported.owner = owner.ptr();
    nb::dlpack::dltensor& tensor = exported.managed.tensor;
    tensor.data = pointer(address);
    tensor.device = {std::get<0>(device), std::get<1>(device)};
    tensor.ndim = int32_t(shape.size());
    tensor.dtype = {std::get<0>(dtype), std::get<1>(dtype), 1};
    tensor.shape = exported.shape.data();
    tensor.strides = nullptr;
  };
  if (versioned) {
    auto exported = std::make_unique<Exported<ManagedTensorVersioned>>();
    fill(*exported);
    exported->managed.major = 1;
    return capsule_of(std::move(exported), "dltensor_versioned");
  }
  auto exported = std::make_unique<Exported<ManagedTensor>>();
  fill(*exported);
  return capsule_of(std::move(exported), "dltensor");
}

}  // namespace

void bind_dlpack(nb::module_& module) {
  module.def("lend", &lend);
  nb::class_<Borrowed>(module, "Borrowed")
      .def(nb::init<nb::handle>())
      .def_prop_ro("address", &Borrowed::address)
      .def_prop_ro("shape", &Borrowed::shape)
      .def_prop_ro("strides", &Borrowed::strides)
      .def_prop_ro("dtype", &Borrowed::dtype)
      .def_prop_ro("device", &Borrowed::device)
      .def_prop_ro("read_only", &Borrowed::read_only)
      .def_prop_ro("is_copy", &Borrowed::is_copy);
}

}  // namespace sk::python
