// Operations that ranks do together on vectors: one array in, one out, each of `count` elements or
// of as many for every rank. Which of them they are the library's schemas say; those that have a
// function of their own in sk/op.h are called by that, which looks at fewer words.
//
// run() is the whole call where all of its arguments are of the common kind: arrays that lie as
// they are used, numbers and names as they are meant. Where one is not, it returns None and has
// done nothing; libsk/_collective.py then goes the long way, which makes copies or says what is
// wrong. So no sentence and no conversion is here.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "bindings.h"
#include "blocking.h"
#include "call_struct.h"
#include "plain_array.h"
#include "ready.h"
#include "sk/call.h"
#include "sk/op.h"

namespace nb = nanobind;

namespace sk::python {
namespace {

constexpr std::array<std::string_view, 5> kReductions = {"sum", "prod", "min", "max", "avg"};

// Its number in enum sk_redop; false: it is no name of one.
bool is_reduction(nb::handle name, int32_t* out) {
  if (!PyUnicode_CheckExact(name.ptr())) return false;
  Py_ssize_t size = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(name.ptr(), &size);
  if (text == nullptr) {
    PyErr_Clear();
    return false;
  }
  const auto found = std::ranges::find(kReductions, std::string_view(text, size_t(size)));
  *out = int32_t(found - kReductions.begin()) + SK_SUM;
  return found != kReductions.end();
}

bool is_number(nb::handle value, int32_t* out) {
  if (!PyLong_CheckExact(value.ptr())) return false;
  const long number = PyLong_AsLong(value.ptr());
  if (number == -1 && PyErr_Occurred() != nullptr) PyErr_Clear();
  *out = int32_t(number);
  return *out == number && number >= 0;
}

// Whose operand it is not; of `count` elements; of that for every rank.
enum class Copies : uint8_t { kNone = 0, kOne = 1, kOfAll = 2 };
// What a call's one number is in Python; kOther goes the long way.
enum class Value : uint8_t { kNone = 0, kReduction = 1, kRank = 2, kOther = 3 };

// Where in the struct, and Copies.
using OperandRow = std::tuple<uint32_t, uint8_t>;

class VectorOp {
 public:
  // `value_at`: where in the struct the one number is that run() reads, which is a Value. `own_at`:
  // where this rank's number is. 0: there is none. `by_number`: also where it has a function of its
  // own, for tests.
  VectorOp(int32_t op, std::string name, uint32_t bytes, const OperandRow& in,
           const OperandRow& out, uint32_t value_at, uint32_t own_at, uint8_t value, bool by_number)
      : op_(by_number ? 0 : op),
        number_(op),
        name_(std::move(name)),
        bytes_(bytes),
        in_offset_(std::get<0>(in)),
        out_offset_(std::get<0>(out)),
        in_(Copies(std::get<1>(in))),
        out_(Copies(std::get<1>(out))),
        value_at_(value_at),
        own_at_(own_at),
        value_(Value(value)) {}

  // The result, or True of a call that has none; None: go the long way.
  nb::object run(CommHandle& comm, nb::handle x, nb::handle out, nb::handle value) const {
    int32_t number = 0;
    if (!read(value, &number)) return nb::none();
    if (!is_on_host(comm)) return nb::none();
    PlainArrays arrays;
    if (in_ == Copies::kNone) return receive(comm, &arrays, out, number);
    PlainArray source;
    if (!arrays.look(x, &source)) return nb::none();
    int64_t count = source.count();
    if (out_ == Copies::kNone) {
      enter(comm, source.span(), {}, count, source.dtype(), {number, nullptr, nullptr}, 0, 0);
      return nb::borrow(Py_True);
    }
    PlainResult result;
    if (in_ == out_) {
      if (!result.make(arrays, out, x, source, source.shape())) return nb::none();
    } else {
      const Shape shape = shape_of_other(comm, source.shape());
      if (shape.get().empty() || !result.make(arrays, out, x, source, shape.get()))
        return nb::none();
    }
    if (in_ == Copies::kOfAll) {
      if (count % comm.world_size != 0) return nb::none();
      count /= comm.world_size;
    }
    arrays.written_by([&] {
      enter(comm, source.span(), result.span(), count, source.dtype(), {number, nullptr, nullptr},
            0, 0);
      return true;
    });
    return result.take();
  }

  // On memory that the Python files have settled. `number` is the one that run() would read,
  // `rest` None or the other floats and integers.
  void call(CommHandle& comm, const Span& in, const Span& out, int64_t count, int32_t dtype,
            int32_t number, nb::handle rest, uintptr_t stream, int64_t timeout_ms) const {
    if (rest.is_none()) {
      return enter(comm, in, out, count, dtype, {number, nullptr, nullptr}, stream, timeout_ms);
    }
    const auto [numbers, integers] =
        nb::cast<std::tuple<std::vector<NumberField>, std::vector<IntegerField>>>(rest);
    enter(comm, in, out, count, dtype, {number, &numbers, &integers}, stream, timeout_ms);
  }

  // The same, kept for later.
  std::unique_ptr<Ready> keep(CommHandle& comm, const Span& in, const Span& out, int64_t count,
                              int32_t dtype, int32_t number, nb::handle rest) const {
    (void)mine("x", in, count, blocks(comm, in_), dtype);
    (void)mine("out", out, count, blocks(comm, out_), dtype);
    std::tuple<std::vector<NumberField>, std::vector<IntegerField>> more;
    if (!rest.is_none()) more = nb::cast<decltype(more)>(rest);
    const Numbers numbers = {number, &std::get<0>(more), &std::get<1>(more)};
    Arguments arguments(bytes_);
    set(&arguments, comm, in, out, count, dtype, numbers);
    return std::make_unique<Ready>(comm, number_, arguments.args.get());
  }
  std::unique_ptr<Ready> keep_meeting(CommHandle& comm) const {
    return std::make_unique<Ready>(comm, number_, CallStruct(bytes_).get());
  }

  // Of one that has neither arrays nor numbers.
  void meet(CommHandle& comm, uintptr_t stream, int64_t timeout_ms) const {
    enter(comm, {}, {}, 0, 0, {0, nullptr, nullptr}, stream, timeout_ms);
  }

 private:
  struct Numbers {
    int32_t first;
    const std::vector<NumberField>* floats;  // The rest, of a call by number; null: none.
    const std::vector<IntegerField>* integers;
  };

  bool read(nb::handle value, int32_t* number) const {
    switch (value_) {
      case Value::kNone:
        return true;
      case Value::kReduction:
        return is_reduction(value, number);
      case Value::kRank:
        return is_number(value, number);
      case Value::kOther:
        break;
    }
    return false;
  }

  nb::object receive(CommHandle& comm, PlainArrays* arrays, nb::handle out, int32_t number) const {
    PlainArray target;
    if (!arrays->look_at_output(out, &target)) return nb::none();
    arrays->written_by([&] {
      enter(comm, {}, target.span(), target.count(), target.dtype(), {number, nullptr, nullptr}, 0,
            0);
      return true;
    });
    return nb::borrow(out);
  }

  // Of the result, where it has not the input's; empty: there is none.
  Shape shape_of_other(const CommHandle& comm, std::span<const Py_ssize_t> in) const {
    Shape shape;
    if (out_ == Copies::kOfAll) {
      shape.push(comm.world_size);
    } else {
      if (in.empty() || in[0] % comm.world_size != 0) return shape;
      shape.push(in[0] / comm.world_size);
      in = in.subspan(1);
    }
    for (const Py_ssize_t size : in) shape.push(size);
    return shape;
  }

  // Null of an operand that only another rank has; where it is missed the library says so.
  static void* mine(const char* what, const Span& span, int64_t count, int64_t blocks,
                    int32_t dtype) {
    return span.address == 0 ? nullptr : held(what, span, count, blocks, dtype);
  }

  static int64_t blocks(const CommHandle& comm, Copies copies) {
    return copies == Copies::kOfAll ? comm.world_size : int64_t(copies);
  }

  void enter(CommHandle& comm, const Span& in, const Span& out, int64_t count, int32_t dtype,
             const Numbers& numbers, uintptr_t stream, int64_t timeout_ms) const {
    const void* const from = mine("x", in, count, blocks(comm, in_), dtype);
    void* const to = mine("out", out, count, blocks(comm, out_), dtype);
    const CommHandle::Collective use(comm, name_.c_str());
    const sk_run_options options = options_of(stream, timeout_ms);
    // Calls without options are remembered: the next one with the same arguments skips checks.
    const sk_run_options* const given = stream != 0 || timeout_ms != 0 ? &options : nullptr;
    const int32_t first = numbers.first;
    sk_comm* const c = comm.get();
    wait(&comm, [&] {
      switch (op_) {
        case SK_OP_BARRIER:
          return sk_barrier(c, given);
        case SK_OP_ALLREDUCE:
          return sk_allreduce(c, from, to, count, dtype, first, given);
        case SK_OP_ALLGATHER:
          return sk_allgather(c, from, to, count, dtype, given);
        case SK_OP_REDUCE_SCATTER:
          return sk_reduce_scatter(c, from, to, count, dtype, first, given);
        case SK_OP_BROADCAST:
          return sk_broadcast(c, from, to, count, dtype, first, given);
        case SK_OP_SEND_RECV:
          return in_ != Copies::kNone ? sk_send(c, from, count, dtype, first, given)
                                      : sk_recv(c, to, count, dtype, first, given);
        default: {
          Arguments arguments(bytes_);
          set(&arguments, comm, in, out, count, dtype, numbers);
          return sk_call(c, number_, arguments.args.get(), given);
        }
      }
    });
  }

  // The struct of arguments, of whose tensors one is read and one written.
  struct Arguments {
    explicit Arguments(uint32_t bytes) : args(bytes) {}
    CallStruct args;
    sk_tensor read = {}, written = {};
  };
  void set(Arguments* arguments, const CommHandle& comm, const Span& in, const Span& out,
           int64_t count, int32_t dtype, const Numbers& numbers) const {
    CallStruct& args = arguments->args;
    const auto put = [&](uint32_t offset, Copies copies, const Span& span, sk_tensor* tensor) {
      if (copies == Copies::kNone) return;
      tensor->struct_size = sizeof *tensor;
      tensor->data = pointer(span.address);
      tensor->dtype = dtype;
      tensor->ndim = 1;
      tensor->device_type = comm.device_type;
      tensor->device_id = comm.device_id;
      tensor->shape[0] = count * blocks(comm, copies);
      tensor->strides[0] = 1;
      args.put(offset, static_cast<const void*>(tensor));
    };
    put(in_offset_, in_, in, &arguments->read);
    put(out_offset_, out_, out, &arguments->written);
    if (value_at_ != 0) args.put(value_at_, numbers.first);
    if (own_at_ != 0) args.put(own_at_, comm.rank);
    if (numbers.floats != nullptr) {
      for (const auto& [offset, value] : *numbers.floats) args.put(offset, value);
    }
    if (numbers.integers != nullptr) {
      for (const auto& [offset, size, value] : *numbers.integers) {
        args.put_integer(offset, size, value);
      }
    }
  }

  int32_t op_;      // By whose function it is called; 0: by number.
  int32_t number_;  // As the schema has it.
  std::string name_;
  uint32_t bytes_, in_offset_, out_offset_;
  Copies in_, out_;
  uint32_t value_at_, own_at_;
  Value value_;
};

}  // namespace

void bind_collectives(nb::module_& module) {
  const auto any = nb::arg().none();
  nb::class_<VectorOp>(module, "VectorOp")
      .def(nb::init<int32_t, std::string, uint32_t, const OperandRow&, const OperandRow&, uint32_t,
                    uint32_t, uint8_t, bool>(),
           nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
           nb::arg("by_number") = false)
      .def("run", &VectorOp::run, nb::arg(), any, any, any)
      .def("call", &VectorOp::call, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
           nb::arg(), any, nb::arg(), nb::arg())
      .def("keep", &VectorOp::keep, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
           nb::arg(), any, nb::keep_alive<0, 2>())
      .def("keep", &VectorOp::keep_meeting, nb::keep_alive<0, 2>())
      .def("meet", &VectorOp::meet);
}

}  // namespace sk::python
