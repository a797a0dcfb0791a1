// Arrays of the common kind: NumPy's own, of a type that the buffer protocol has a letter for, and
// torch's, both row-major and aligned. libsk/_arrays.py looks at all others, in its own time.
#ifndef LIBSK_PYTHON_PLAIN_ARRAY_H_
#define LIBSK_PYTHON_PLAIN_ARRAY_H_

#include <nanobind/nanobind.h>

#include <array>
#include <cstdint>
#include <span>
#include <utility>

#include "bindings.h"
#include "memory.h"
#include "tensors.h"

namespace sk::python {

// One's memory, which its array keeps for as long as this lives; a tensor's its caller. With the
// GIL only.
class PlainArray {
 public:
  PlainArray() = default;
  // Whether it is one that gives a buffer; what else it is matters not.
  bool look(PyObject* array);
  // Whether it is one of NumPy's own class.
  bool look_at_numpys(nanobind::handle array);
  // Whether it is one of torch's, of a call that has begun with them.
  bool look(nanobind::handle tensor, Tensors& tensors);
  ~PlainArray() {
    if (held_) PyBuffer_Release(&view_);
  }
  PlainArray(const PlainArray&) = delete;
  PlainArray& operator=(const PlainArray&) = delete;

  Span span() const { return span_; }
  int64_t count() const { return count_; }
  int32_t dtype() const { return dtype_; }
  bool read_only() const { return held_ && view_.readonly != 0; }
  std::span<const Py_ssize_t> shape() const { return shape_; }

 private:
  // Of tensors, whose own may change while others are looked at; those of more go the long way.
  static constexpr size_t kDimensionsMax = 8;

  Py_buffer view_{};
  bool held_ = false;
  int32_t dtype_ = 0;
  Span span_;
  int64_t count_ = 0;
  std::span<const Py_ssize_t> shape_;
  std::array<Py_ssize_t, kDimensionsMax> sizes_{};
};

// Of as many dimensions as arrays of NumPy may have, and one more.
class Shape {
 public:
  void push(Py_ssize_t size) {
    if (count_ < kMax) sizes_[count_++] = size;
  }
  std::span<const Py_ssize_t> get() const { return {sizes_.data(), count_}; }

 private:
  static constexpr size_t kMax = 65;
  std::array<Py_ssize_t, kMax> sizes_;
  size_t count_ = 0;
};

// A new array of NumPy's; invalid where there is no memory for it.
nanobind::object new_array(std::span<const Py_ssize_t> shape, nanobind::handle dtype);

// The arrays of one call. What is written goes through written_by().
class PlainArrays {
 public:
  // Whether this is a plain array of NumPy's own class, or of torch's.
  bool look(nanobind::handle array, PlainArray* out) { return look(array, out, false); }
  // Whether it may be written, too.
  bool look_at_output(nanobind::handle array, PlainArray* out) {
    return look(array, out, true) && !out->read_only();
  }
  // As Tensors::written_by().
  template <typename Call>
  bool written_by(Call&& call) {
    return tensors_.written_by(std::forward<Call>(call));
  }

 private:
  bool look(nanobind::handle array, PlainArray* out, bool written);

  Tensors tensors_;
  bool has_tensors_ = false;
};

// An output: the one that is given, or a new one.
class PlainResult {
 public:
  // Whether it can take a result of this shape, of the type that `like` has, whose memory is
  // `source`.
  bool make(PlainArrays& arrays, nanobind::handle given, nanobind::handle like,
            const PlainArray& source, std::span<const Py_ssize_t> shape);
  Span span() const { return array_.span(); }
  nanobind::object take() { return std::move(object_); }

 private:
  nanobind::object object_;
  PlainArray array_;  // Behind its object, which it lets go of first.
};

// Whether arrays of this kind lie where the communicator's do.
inline bool is_on_host(const CommHandle& comm) { return comm.device_type == SK_DEVICE_CPU; }

void bind_plain_array(nanobind::module_& module);

}  // namespace sk::python

#endif  // LIBSK_PYTHON_PLAIN_ARRAY_H_
