#include "tensors.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "errors.h"
#include "gil.h"
#include "sk/op.h"

namespace nb = nanobind;

namespace sk::python {
namespace {

// DLPack's exchange API, by its specification. Of major version 1; what comes behind is of later
// minor ones.
struct ExchangeHeader {
  uint32_t major;
  uint32_t minor;
  const ExchangeHeader* older;  // Null, or the same table of an older major version.
};

struct Exchange {
  ExchangeHeader header;
  void* allocate;   // Makes a tensor.
  void* lend;       // Gives one that has to be given back.
  void* take_over;  // Makes a tensor of one that was given.
  // Fills in a tensor that lives no longer than the object. 0, or -1 with an exception of Python's.
  int (*describe)(void* object, nb::dlpack::dltensor* out);
  void* stream;
};

constexpr int32_t kCpu = 1;
constexpr uint8_t kInteger = 0, kFloat = 2, kBfloat = 4;

// What is known of torch. Never given back.
struct Torch {
  PyObject* tensor = nullptr;
  PyObject* parameter = nullptr;
  int (*describe)(void*, nb::dlpack::dltensor*) = nullptr;
  PyObject* is_neg = nullptr;           // Tensor's method.
  PyObject* requires_grad = nullptr;    // Names of its attributes.
  PyObject* version = nullptr;          // One that tensors of inference mode lack.
  descrgetfunc get = nullptr;           // Of both.
  PyObject* is_grad_enabled = nullptr;  // Functions without arguments.
  PyObject* is_inference_mode = nullptr;
  PyObject* forward_mode = nullptr;  // A module, and its level: -1 where the mode is off.
  PyObject* level = nullptr;
  PyObject* empty = nullptr;  // Of a shape, and of these by name: a dtype, and the CPU.
  PyObject* names = nullptr;
  PyObject* cpu = nullptr;
  PyObject* note = nullptr;                    // Tells of a list of tensors that they are written.
  PyObject* has_written = nullptr;             // Whether a call that ended so may have written.
  std::array<PyObject*, SK_I64 + 1> dtypes{};  // By enum sk_dtype.
};
Torch g_torch;

// True, false, or what is neither: then an exception goes away, and so is no answer.
enum class Answer : uint8_t { kNo, kYes, kNone };
Answer answer(PyObject* got) {
  const nb::object held = nb::steal(got);
  if (got == Py_False) return Answer::kNo;
  if (got == Py_True) return Answer::kYes;
  if (got == nullptr) drop_error();
  return Answer::kNone;
}

template <typename... Arguments>
PyObject* call(PyObject* function, Arguments... arguments) {
  return contained([&] { return PyObject_CallFunctionObjArgs(function, arguments..., nullptr); });
}

// Of hundreds of tensors in a call: without what a call with any number of arguments needs.
PyObject* call_method(PyObject* method, PyObject* self) {
  return contained([&] { return PyObject_Vectorcall(method, &self, 1, nullptr); });
}

// By its descriptor, which lookups by name take twice the time to find: the tensor's class is
// known.
PyObject* attribute(PyObject* descriptor, PyObject* of) {
  return contained(
      [&] { return g_torch.get(descriptor, of, reinterpret_cast<PyObject*>(Py_TYPE(of))); });
}

// Whether no tensor has a tangent, in any thread.
bool is_forward_mode_off() {
  const nb::object level = nb::steal(PyObject_GetAttr(g_torch.forward_mode, g_torch.level));
  const bool is_known = level.is_valid() && PyLong_CheckExact(level.ptr());
  const long number = is_known ? PyLong_AsLong(level.ptr()) : 0;
  drop_error();
  return number < 0;
}

int32_t dtype_of(const nb::dlpack::dtype& dtype) {
  if (dtype.lanes != 1) return 0;
  switch (dtype.code) {
    case kFloat:
      return dtype.bits == 32 ? SK_F32 : dtype.bits == 64 ? SK_F64 : dtype.bits == 16 ? SK_F16 : 0;
    case kBfloat:
      return dtype.bits == 16 ? SK_BF16 : 0;
    case kInteger:
      return dtype.bits == 32 ? SK_I32 : dtype.bits == 64 ? SK_I64 : 0;
    default:
      return 0;
  }
}

const Exchange* exchange_of(nb::handle capsule) {
  constexpr const char* kName = "dlpack_exchange_api";
  if (PyCapsule_IsValid(capsule.ptr(), kName) == 0) return nullptr;
  const auto* header =
      static_cast<const ExchangeHeader*>(PyCapsule_GetPointer(capsule.ptr(), kName));
  while (header != nullptr && header->major > 1) header = header->older;
  if (header == nullptr || header->major != 1) return nullptr;
  const auto* const found = reinterpret_cast<const Exchange*>(header);
  return found->describe != nullptr ? found : nullptr;
}

// Whether tensors are read by it from now on. `dtypes`: by enum sk_dtype, from 1.
bool know_torch(nb::handle tensor, nb::handle parameter, nb::handle capsule,
                const std::vector<nb::object>& dtypes, nb::handle is_grad_enabled,
                nb::handle is_inference_mode, nb::handle forward_mode, nb::handle empty,
                nb::handle cpu, nb::handle note, nb::handle has_written) {
  const Exchange* const exchange = exchange_of(capsule);
  if (exchange == nullptr || dtypes.size() != size_t{SK_I64}) return false;
  const nb::object is_neg = tensor.attr("is_neg"), version = tensor.attr("_version");
  const nb::object requires_grad = tensor.attr("requires_grad");
  const auto get_of = [](const nb::object& descriptor) {
    return reinterpret_cast<descrgetfunc>(
        PyType_GetSlot(Py_TYPE(descriptor.ptr()), Py_tp_descr_get));
  };
  if (get_of(version) == nullptr || get_of(version) != get_of(requires_grad)) return false;
  const auto kept = [](nb::handle object) { return object.inc_ref().ptr(); };
  Torch made;
  made.tensor = kept(tensor);
  made.parameter = kept(parameter);
  made.describe = exchange->describe;
  made.is_neg = kept(is_neg);
  made.requires_grad = kept(requires_grad);
  made.version = kept(version);
  made.get = get_of(version);
  made.is_grad_enabled = kept(is_grad_enabled);
  made.is_inference_mode = kept(is_inference_mode);
  made.forward_mode = kept(forward_mode);
  made.level = PyUnicode_InternFromString("_current_level");
  made.empty = kept(empty);
  made.names = nb::make_tuple("dtype", "device").release().ptr();
  made.cpu = kept(cpu);
  made.note = kept(note);
  made.has_written = kept(has_written);
  for (size_t i = 0; i < dtypes.size(); ++i) made.dtypes[i + 1] = kept(dtypes[i]);
  if (made.level == nullptr) throw nb::python_error();
  g_torch = made;
  return true;
}

}  // namespace

bool is_tensor(nb::handle x) {
  PyObject* const type = reinterpret_cast<PyObject*>(Py_TYPE(x.ptr()));
  return type == g_torch.tensor || type == g_torch.parameter;
}

bool Tensors::begin(bool many) {
  if (!is_forward_mode_off()) return false;
  // Of hundreds all others need not be asked then; of a few that require none, torch itself.
  if (many) (void)are_gradients_kept();
  return true;
}

bool Tensors::are_gradients_kept() {
  if (gradients_ == Gradients::kNotAsked) {
    const bool is_off = answer(call(g_torch.is_grad_enabled)) == Answer::kNo;
    gradients_ = is_off ? Gradients::kNone : Gradients::kKept;
  }
  return gradients_ == Gradients::kKept;
}

bool Tensors::is_plain(nb::handle x, bool negative) {
  if (negative && answer(call_method(g_torch.is_neg, x.ptr())) != Answer::kNo) return false;
  if (gradients_ == Gradients::kNone) return true;
  const Answer is_required = answer(attribute(g_torch.requires_grad, x.ptr()));
  return is_required == Answer::kNo || (is_required == Answer::kYes && !are_gradients_kept());
}

bool Tensors::is_writable(nb::handle x) {
  const nb::object version = nb::steal(attribute(g_torch.version, x.ptr()));
  if (!version.is_valid()) {
    drop_error();
    return answer(call(g_torch.is_inference_mode)) == Answer::kYes;
  }
  if (!written_.is_valid()) written_ = nb::list();
  if (PyList_Append(written_.ptr(), x.ptr()) != 0) throw nb::python_error();
  return true;
}

void Tensors::note() {
  if (!written_.is_valid()) return;
  if (!nb::steal(call(g_torch.note, written_.ptr())).is_valid()) throw nb::python_error();
}

void Tensors::note_after(nb::python_error& error) {
  if (!written_.is_valid()) return;
  Answer has_written = Answer::kNone;
  try {
    has_written = answer(call(g_torch.has_written, error.value().ptr()));
  } catch (nb::python_error&) {  // A handler's, of a signal that came meanwhile.
    note();
    throw;
  }
  if (has_written != Answer::kNo) note();
}

int64_t TensorMemory::count() const {
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

bool TensorMemory::is_row_major() const {
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != step) return count() == 0;
    step *= shape[i];
  }
  return true;
}

bool read_tensor(nb::handle x, TensorMemory* out) {
  nb::dlpack::dltensor tensor = {};
  if (g_torch.describe(x.ptr(), &tensor) != 0) {
    drop_error();  // As of those without memory.
    return false;
  }
  if (tensor.device.device_type != kCpu || tensor.ndim < 0) return false;
  if (tensor.ndim > 0 && (tensor.shape == nullptr || tensor.strides == nullptr)) return false;
  const auto dimensions = size_t(tensor.ndim);
  out->dtype = dtype_of(tensor.dtype);
  out->shape = {tensor.shape, dimensions};
  out->strides = {tensor.strides, dimensions};
  out->address = reinterpret_cast<uintptr_t>(tensor.data) + tensor.byte_offset;
  if (out->dtype == 0) return false;
  return out->count() == 0 || (tensor.data != nullptr && out->address % bytes_of(out->dtype) == 0);
}

nb::object new_tensor(std::span<const Py_ssize_t> shape, int32_t dtype) {
  const nb::object sizes = nb::steal(PyTuple_New(Py_ssize_t(shape.size())));
  if (!sizes.is_valid()) throw nb::python_error();
  for (size_t i = 0; i < shape.size(); ++i) {
    PyTuple_SetItem(sizes.ptr(), Py_ssize_t(i), PyLong_FromSsize_t(shape[i]));
  }
  // Torch's own function, in which no code of Python's runs.
  const std::array arguments = {sizes.ptr(), g_torch.dtypes[size_t(dtype)], g_torch.cpu};
  PyObject* const made = contained(
      [&] { return PyObject_Vectorcall(g_torch.empty, arguments.data(), 1, g_torch.names); });
  const nb::object held = nb::steal(made);
  if (made == nullptr) drop_error();
  return held;
}

namespace {

// Where a tensor lay, and how, when a call was prepared that keeps its address.
class Lies {
 public:
  // `address`: the call's.
  Lies(nb::object x, uintptr_t address) : x_(std::move(x)), address_(address) {
    TensorMemory memory;
    is_known_ = is_tensor(x_) && read_tensor(x_, &memory) && memory.address == address;
    if (!is_known_) return;
    dtype_ = memory.dtype;
    shape_.assign(memory.shape.begin(), memory.shape.end());
    strides_.assign(memory.strides.begin(), memory.strides.end());
  }

  bool is_known() const { return is_known_; }
  bool as_before() const {
    TensorMemory memory;
    if (!is_known_ || !is_tensor(x_) || !read_tensor(x_, &memory)) return false;
    return memory.address == address_ && memory.dtype == dtype_ &&
           std::ranges::equal(memory.shape, shape_) && std::ranges::equal(memory.strides, strides_);
  }

 private:
  nb::object x_;
  uintptr_t address_;
  bool is_known_ = false;
  int32_t dtype_ = 0;
  std::vector<int64_t> shape_, strides_;
};

}  // namespace

void bind_tensors(nb::module_& module) {
  nb::class_<Lies>(module, "Lies")
      .def(nb::init<nb::object, uintptr_t>())
      .def_prop_ro("is_known", &Lies::is_known)
      .def("as_before", &Lies::as_before);
  module.def("know_torch", &know_torch);
  module.def("forget_torch", [] { g_torch = {}; });
}

}  // namespace sk::python
