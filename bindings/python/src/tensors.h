// Tensors of torch as calls of the common kind read them: by DLPack's exchange API (since its 1.2),
// a table of C functions that torch.Tensor has in a capsule. One of them says where a tensor lies
// and how, and makes no object for it. Older releases of torch have no such table, and of theirs
// nothing is known here.
//
// That function says nothing of what a tensor is beside its memory: of a pending negation, of
// gradients, of versions. So all of that is asked for first. Asking may run other code of Python's,
// or other threads, by which a tensor's shape may change; reading runs none.
#ifndef LIBSK_PYTHON_TENSORS_H_
#define LIBSK_PYTHON_TENSORS_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <span>
#include <utility>

#include "memory.h"

namespace sk::python {

// Whether this is of torch.Tensor or torch.nn.Parameter itself: other classes may say otherwise of
// their memory. False of all until torch is known.
bool is_tensor(nanobind::handle x);

// What is asked of a call's tensors. With the GIL only.
class Tensors {
 public:
  // Of one call, which has tensors. False: go the long way, for some may have tangents, or torch
  // does not say. `many`: it has hundreds of them.
  bool begin(bool many);
  // Whether memory holds what the tensor is, and no gradient is lost: one that requires it is
  // refused where torch keeps them. `negative`: whether it may have a negation that is yet to be
  // applied.
  bool is_plain(nanobind::handle x, bool negative);
  // Whether it may be written; it is remembered then.
  bool is_writable(nanobind::handle x);
  // `call`, which writes them where it returns true or fails on its way; torch is told so then.
  template <typename Call>
  bool written_by(Call&& call) {
    bool is_done = false;
    try {
      is_done = std::forward<Call>(call)();
    } catch (nanobind::python_error& error) {
      note_after(error);
      throw;
    }
    if (is_done) note();
    return is_done;
  }

 private:
  void note();
  void note_after(nanobind::python_error& error);

  // Of torch, asked once of a call.
  enum class Gradients : uint8_t { kNotAsked, kNone, kKept };

  bool are_gradients_kept();

  Gradients gradients_ = Gradients::kNotAsked;
  nanobind::object written_;  // A list of those that have a version; invalid: there are none.
};

// Where a tensor lies. Shape and strides, in elements, are the tensor's own: nothing of Python's
// may run while they are used.
struct TensorMemory {
  uintptr_t address = 0;
  int32_t dtype = 0;
  std::span<const int64_t> shape, strides;

  int64_t count() const;
  bool is_row_major() const;
  Span span() const { return {address, uint64_t(count()) * bytes_of(dtype)}; }
};

// False of what is not on the CPU, of a type that libsk has not, not aligned to it, or nowhere.
bool read_tensor(nanobind::handle x, TensorMemory* out);

// A new one, of this enum sk_dtype; invalid where there is none.
nanobind::object new_tensor(std::span<const Py_ssize_t> shape, int32_t dtype);

void bind_tensors(nanobind::module_& module);

}  // namespace sk::python

#endif  // LIBSK_PYTHON_TENSORS_H_
