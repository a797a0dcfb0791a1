// The short way of an operation on lists of arrays, which it reads or overwrites: a whole call
// where all of them are plain, and those of each place in the lists lie alike and without gaps. As
// in local_op.cpp, run() says false of all else and has changed nothing; libsk/_list_call.py then
// goes the long way, which makes copies or says what is wrong. So no sentence is here.
//
// Lists have hundreds of tensors, which are read in two turns. The first asks what each is, and may
// run other code; the second asks where they lie, and holds them against each other.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <tuple>
#include <vector>

#include "alone.h"
#include "bindings.h"
#include "call_struct.h"
#include "context.h"
#include "plain_array.h"
#include "tensors.h"

namespace nb = nanobind;

namespace sk::python {
namespace {

using ListRow = std::tuple<uint32_t, std::string, bool>;  // Where, its name, whether it is written.

// Whether elements lie without gaps in some order of the dimensions. The step of a dimension that
// has one element means nothing.
bool is_dense(const TensorMemory& memory) {
  std::vector<size_t> axes;
  for (size_t i = 0; i < memory.shape.size(); ++i) {
    if (memory.shape[i] != 1) axes.push_back(i);
  }
  std::ranges::sort(axes, {}, [&](size_t axis) { return memory.strides[axis]; });
  int64_t step = 1;
  for (const size_t axis : axes) {
    if (memory.strides[axis] != step) return false;
    step *= memory.shape[axis];
  }
  return true;
}

// Whether two arrays of one shape have their elements in one order, where one has no gaps.
bool are_alike(const TensorMemory& a, const TensorMemory& b) {
  for (size_t i = 0; i < a.shape.size(); ++i) {
    if (a.shape[i] != 1 && a.strides[i] != b.strides[i]) return false;
  }
  return true;
}

// The lists of one call, for as long as this lives.
class Lists {
 public:
  explicit Lists(const std::vector<ListRow>& rows) : rows_(rows) {}

  // The first turn.
  bool ask(const nb::tuple& given, bool negative) {
    if (given.size() != rows_.size()) return false;
    for (size_t i = 0; i < rows_.size(); ++i) {
      PyObject* const list = PyTuple_GetItem(given.ptr(), Py_ssize_t(i));
      if (PyList_CheckExact(list) == 0 && PyTuple_CheckExact(list) == 0) return false;
      // Of their own: another thread may change the list meanwhile.
      kept_.push_back(nb::steal(PySequence_Tuple(list)));
      if (!kept_.back().is_valid()) throw nb::python_error();
      const auto length = size_t(PyTuple_Size(kept_.back().ptr()));
      if (i == 0) {
        length_ = length;
        items_.reserve(length * rows_.size());
      }
      if (length != length_) return false;
      for (size_t j = 0; j < length; ++j) {
        if (!ask_of(PyTuple_GetItem(kept_.back().ptr(), Py_ssize_t(j)), std::get<2>(rows_[i]),
                    negative))
          return false;
      }
    }
    return true;
  }

  // The second. Behind it arguments() has them.
  bool read() {
    tensors_.resize(items_.size());
    pointers_.reserve(items_.size());
    for (size_t i = 0; i < items_.size(); ++i) {
      Item& item = items_[i];
      TensorMemory& memory = item.memory;
      if (item.tensor.is_valid() && !read_tensor(item.tensor, &memory)) return false;
      item.is_row_major = !item.tensor.is_valid() || memory.is_row_major();
      if (!fits(item, items_[i % length_], i < length_)) return false;
      const char* const name = std::get<1>(rows_[i / length_]).c_str();
      set_tensor(name, {memory.span(), memory.dtype, 1, memory.count(), 0}, &tensors_[i]);
      pointers_.push_back(&tensors_[i]);
    }
    return true;
  }

  void put(uint32_t length_at, CallStruct* args) const {
    args->put_integer(length_at, sizeof(int64_t), int64_t(length_));
    for (size_t i = 0; i < rows_.size(); ++i) {
      const sk_tensor* const* const first = pointers_.data() + i * length_;
      args->put(std::get<0>(rows_[i]), static_cast<const void*>(first));
    }
  }

  Tensors& tensors() { return of_torch_; }

 private:
  struct Item {
    nb::handle tensor;  // Invalid of NumPy's arrays, which are row-major.
    TensorMemory memory;
    bool is_row_major = true;
  };

  bool ask_of(nb::handle x, bool is_written, bool negative) {
    if (!is_tensor(x)) {
      PlainArray& array = arrays_.emplace_back();
      if (!array.look_at_numpys(x) || (is_written && array.read_only())) return false;
      items_.push_back({{}, {array.span().address, array.dtype(), array.shape(), {}}, true});
      return true;
    }
    if (!has_begun_ && !of_torch_.begin(true)) return false;
    has_begun_ = true;
    if (!of_torch_.is_plain(x, negative) || (is_written && !of_torch_.is_writable(x))) return false;
    items_.push_back({x, {}, false});
    return true;
  }

  // `first` is the array of this place in the first list.
  static bool fits(const Item& item, const Item& first, bool is_first) {
    if (is_first) return item.is_row_major || is_dense(item.memory);
    if (!std::ranges::equal(item.memory.shape, first.memory.shape)) return false;
    if (item.is_row_major || first.is_row_major) return item.is_row_major && first.is_row_major;
    return are_alike(item.memory, first.memory);
  }

  const std::vector<ListRow>& rows_;
  size_t length_ = 0;
  std::vector<nb::object> kept_;
  std::vector<Item> items_;
  std::deque<PlainArray> arrays_;
  Tensors of_torch_;
  bool has_begun_ = false;
  std::vector<sk_tensor> tensors_;
  std::vector<const sk_tensor*> pointers_;
};

class ListOp {
 public:
  // `length_at`: where in the struct the number of each list's arrays is.
  ListOp(int32_t op, uint32_t bytes, uint32_t length_at, std::vector<ListRow> lists,
         std::vector<NumberRow> numbers)
      : op_(op),
        bytes_(bytes),
        length_at_(length_at),
        lists_(std::move(lists)),
        numbers_(std::move(numbers)) {}

  // Whether the call was made. `negative`: whether a tensor may have a negation yet to be applied.
  bool run(const Context& context, const nb::tuple& given, const nb::tuple& values,
           bool negative) const {
    CallStruct args(bytes_);
    Lists lists(lists_);
    if (values.size() != numbers_.size() || !read_numbers(numbers_, values, &args)) return false;
    if (!lists.ask(given, negative) || !lists.read()) return false;
    lists.put(length_at_, &args);
    return lists.tensors().written_by([&] { return take_alone(context, op_, args); });
  }

 private:
  int32_t op_;
  uint32_t bytes_, length_at_;
  std::vector<ListRow> lists_;
  std::vector<NumberRow> numbers_;
};

}  // namespace

void bind_list_op(nb::module_& module) {
  nb::class_<ListOp>(module, "ListOp")
      .def(nb::init<int32_t, uint32_t, uint32_t, std::vector<ListRow>, std::vector<NumberRow>>())
      .def("run", &ListOp::run);
}

}  // namespace sk::python
