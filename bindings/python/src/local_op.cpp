// The short way of an operation that this process does alone: a whole call where its arrays are
// plain, its numbers numbers, and what is asked for asked by a bool. Where one is not, and where
// the library refuses the call, run() returns None and has changed nothing; libsk/_schema_call.py
// then goes the long way, which makes copies or says what is wrong. So no sentence is here.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <deque>
#include <string>
#include <tuple>
#include <vector>

#include "alone.h"
#include "bindings.h"
#include "call_struct.h"
#include "context.h"
#include "plain_array.h"

namespace nb = nanobind;

namespace sk::python {
namespace {

constexpr size_t kOperandsMax = 8, kAxesMax = 8;

using Axes = std::vector<uint32_t>;
// Where in the struct, its name, its axes by number, and whether it may be left out; of an output:
// whether it is made only where it is asked for.
using OperandRow = std::tuple<uint32_t, std::string, Axes, bool>;

// What is known of the axes while a call's arrays are read: an axis may be several dimensions.
class Sizes {
 public:
  explicit Sizes(bool leading) : leading_(leading) {}

  // Whether an operand of these axes may have this shape.
  bool take(const Axes& axes, std::span<const Py_ssize_t> shape) {
    if (leading_ ? shape.empty() : shape.size() != axes.size()) return false;
    if (axes.size() == 1) {
      set(axes[0], shape);
    } else {
      set(axes[0], shape.first(shape.size() - 1));
      set(axes[1], shape.last(1));
    }
    return std::ranges::equal(shape_of(axes).get(), shape);
  }
  bool knows(const Axes& axes) const {
    return std::ranges::all_of(axes, [&](uint32_t axis) { return known_[axis]; });
  }
  Shape shape_of(const Axes& axes) const {
    Shape shape;
    for (const uint32_t axis : axes) {
      for (const Py_ssize_t size : of_[axis]) shape.push(size);
    }
    if (shape.get().empty()) shape.push(1);  // One for each row, of one row.
    return shape;
  }

 private:
  void set(uint32_t axis, std::span<const Py_ssize_t> sizes) {
    if (!known_[axis]) of_[axis] = sizes;
    known_[axis] = true;
  }

  bool leading_;
  std::array<std::span<const Py_ssize_t>, kAxesMax> of_;  // Of arrays that live as long.
  std::array<bool, kAxesMax> known_{};
};

Matrix matrix_of(const PlainArray& array, bool vector) {
  if (vector) return {array.span(), array.dtype(), 1, array.count(), 0};
  const Py_ssize_t columns = array.shape().back();
  int64_t rows = 1;
  for (const Py_ssize_t size : array.shape().first(array.shape().size() - 1)) rows *= size;
  return {array.span(), array.dtype(), rows, columns, std::max<Py_ssize_t>(1, columns)};
}

class LocalOp {
 public:
  // `leading`: an operand of rows has any number of dimensions, whose last is a row. `types`: of
  // the inputs' types, by number and 0 for what is not there, the results' as (number, dtype).
  LocalOp(int32_t op, uint32_t bytes, std::vector<OperandRow> inputs,
          std::vector<NumberRow> numbers, std::vector<OperandRow> outputs, bool leading,
          nb::object types)
      : op_(op),
        bytes_(bytes),
        inputs_(std::move(inputs)),
        numbers_(std::move(numbers)),
        outputs_(std::move(outputs)),
        leading_(leading),
        types_(std::move(types)) {
    const auto fits = [](const std::vector<OperandRow>& rows) {
      return rows.size() <= kOperandsMax && std::ranges::all_of(rows, [](const OperandRow& row) {
               const Axes& axes = std::get<2>(row);
               return (axes.size() == 1 || axes.size() == 2) &&
                      std::ranges::all_of(axes, [](uint32_t axis) { return axis < kAxesMax; });
             });
    };
    if (!fits(inputs_) || !fits(outputs_)) check(SK_ERR_INTERNAL, "an operation beyond this table");
  }

  // The result, or a tuple of several; None: go the long way. Of tuples as long as their tables.
  nb::object run(const Context& context, const nb::tuple& arrays, const nb::tuple& values,
                 const nb::tuple& outputs) {
    if (arrays.size() != inputs_.size() || values.size() != numbers_.size() ||
        outputs.size() != outputs_.size())
      return nb::none();
    CallStruct args(bytes_);
    Sizes sizes(leading_);
    PlainArrays plain;
    nb::handle like;  // The first array, of whose kind results are.
    std::array<PlainArray, kOperandsMax> read, made;
    std::array<sk_tensor, kOperandsMax> read_tensors, made_tensors;
    Codes codes{};
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const auto& [offset, name, axes, optional] = inputs_[i];
      PyObject* const given = PyTuple_GetItem(arrays.ptr(), Py_ssize_t(i));
      if (given == Py_None && optional) continue;
      if (!plain.look(given, &read[i]) || !sizes.take(axes, read[i].shape())) return nb::none();
      if (!like.is_valid()) like = given;
      codes[i] = read[i].dtype();
      set_tensor(name.c_str(), matrix_of(read[i], axes.size() == 1), &read_tensors[i]);
      args.put(offset, static_cast<const void*>(&read_tensors[i]));
    }
    if (!read_numbers(numbers_, values, &args)) return nb::none();

    const Types* const types = types_of(codes);
    if (types == nullptr) return nb::none();
    std::array<nb::object, kOperandsMax> results;
    size_t count = 0;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const auto& [offset, name, axes, asked] = outputs_[i];
      PyObject* given = PyTuple_GetItem(outputs.ptr(), Py_ssize_t(i));
      if (asked) {
        if (given == Py_False) continue;
        if (given != Py_True) return nb::none();
        given = Py_None;
      }
      const auto& [code, dtype] = types->of_results[i];
      if (code == 0 || !sizes.knows(axes)) return nb::none();
      const Shape shape = sizes.shape_of(axes);
      const bool is_given = given != Py_None;
      nb::object result = is_given ? nb::borrow(given) : new_like(like, shape.get(), code, dtype);
      if (!result.is_valid()) return nb::none();
      const bool fits =
          is_given ? plain.look_at_output(result, &made[i]) : plain.look(result, &made[i]);
      if (!fits || made[i].dtype() != code || !std::ranges::equal(made[i].shape(), shape.get()))
        return nb::none();
      set_tensor(name.c_str(), matrix_of(made[i], axes.size() == 1), &made_tensors[i]);
      args.put(offset, static_cast<const void*>(&made_tensors[i]));
      results[count++] = std::move(result);
    }
    const bool is_done = plain.written_by([&] { return take_alone(context, op_, args); });
    return is_done ? taken(results, count) : nb::none();
  }

 private:
  using Codes = std::array<int32_t, kOperandsMax>;
  struct Types {
    Codes of_inputs;
    std::vector<std::tuple<int32_t, nb::object>> of_results;
  };

  static nb::object new_like(nb::handle like, std::span<const Py_ssize_t> shape, int32_t code,
                             nb::handle dtype) {
    if (like.is_valid() && is_tensor(like)) return new_tensor(shape, code);
    return new_array(shape, dtype);
  }

  // Null where Python finds none. Asked once of each; few are ever used.
  const Types* types_of(const Codes& codes) {
    for (const Types& each : known_) {
      if (each.of_inputs == codes) return &each;
    }
    const nb::object list = nb::steal(PyTuple_New(Py_ssize_t(inputs_.size())));
    for (size_t i = 0; i < inputs_.size(); ++i) {
      PyTuple_SetItem(list.ptr(), Py_ssize_t(i), PyLong_FromLong(codes[i]));
    }
    auto found = nb::cast<std::vector<std::tuple<int32_t, nb::object>>>(
        contained([&] { return types_(list); }));
    if (found.size() != outputs_.size()) return nullptr;
    return &known_.emplace_back(codes, std::move(found));
  }

  static nb::object taken(std::array<nb::object, kOperandsMax>& results, size_t count) {
    if (count == 1) return std::move(results[0]);
    const nb::object all = nb::steal(PyTuple_New(Py_ssize_t(count)));
    for (size_t i = 0; i < count; ++i) {
      PyTuple_SetItem(all.ptr(), Py_ssize_t(i), results[i].release().ptr());
    }
    return all;
  }

  int32_t op_;
  uint32_t bytes_;
  std::vector<OperandRow> inputs_;
  std::vector<NumberRow> numbers_;
  std::vector<OperandRow> outputs_;
  bool leading_;
  nb::object types_;
  std::deque<Types> known_;  // Stays where it is when others are added.
};

}  // namespace

void bind_local_op(nb::module_& module) {
  nb::class_<LocalOp>(module, "LocalOp")
      .def(nb::init<int32_t, uint32_t, std::vector<OperandRow>, std::vector<NumberRow>,
                    std::vector<OperandRow>, bool, nb::object>())
      .def("run", &LocalOp::run);
}

}  // namespace sk::python
