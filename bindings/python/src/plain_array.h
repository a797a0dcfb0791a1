// Arrays of the common kind: NumPy's own, row-major, aligned, of a type that the buffer protocol
// has a letter for. libsk/_arrays.py looks at all others, in its own time.
#ifndef LIBSK_PYTHON_PLAIN_ARRAY_H_
#define LIBSK_PYTHON_PLAIN_ARRAY_H_

#include <nanobind/nanobind.h>

#include <array>
#include <cstdint>
#include <span>
#include <utility>

#include "bindings.h"
#include "memory.h"

namespace sk::python {

// One's memory, which its array keeps for as long as this lives. With the GIL only.
class PlainArray {
 public:
  PlainArray() = default;
  // Whether it is one; what else it is matters not.
  bool look(PyObject* array);
  ~PlainArray() {
    if (held_) PyBuffer_Release(&view_);
  }
  PlainArray(const PlainArray&) = delete;
  PlainArray& operator=(const PlainArray&) = delete;

  Span span() const { return {reinterpret_cast<uintptr_t>(view_.buf), uint64_t(view_.len)}; }
  int64_t count() const { return view_.len / view_.itemsize; }
  int32_t dtype() const { return dtype_; }
  bool read_only() const { return view_.readonly != 0; }
  std::span<const Py_ssize_t> shape() const { return {view_.shape, size_t(view_.ndim)}; }

 private:
  Py_buffer view_{};
  bool held_ = false;
  int32_t dtype_ = 0;
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

// Whether this is a plain array of NumPy's own class.
bool look(nanobind::handle array, PlainArray* out);

// A new array of NumPy's; invalid where there is no memory for it.
nanobind::object new_array(std::span<const Py_ssize_t> shape, nanobind::handle dtype);

// Whether this is a plain array, for a communicator that is where those are.
bool look(const CommHandle& comm, nanobind::handle array, PlainArray* out);

// An output: the one that is given, or a new one.
class PlainResult {
 public:
  // Whether it can take a result of this shape, of the type that `like` has, whose memory is
  // `source`.
  bool make(const CommHandle& comm, nanobind::handle given, nanobind::handle like,
            const PlainArray& source, std::span<const Py_ssize_t> shape);
  Span span() const { return array_.span(); }
  nanobind::object take() { return std::move(object_); }

 private:
  nanobind::object object_;
  PlainArray array_;  // Behind its object, which it lets go of first.
};

void bind_plain_array(nanobind::module_& module);

}  // namespace sk::python

#endif  // LIBSK_PYTHON_PLAIN_ARRAY_H_
