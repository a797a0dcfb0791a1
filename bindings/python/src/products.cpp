// Operations that ranks do together on matrices, and weights that are packed once for many of them.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "blocking.h"
#include "call_struct.h"
#include "packed.h"
#include "ready.h"
#include "sk/op.h"
#include "sk/ops.h"

namespace nb = nanobind;

namespace sk::python {

Packed::Packed(CommHandle& comm, const Matrix& b, uint32_t flags) {
  const CommHandle::Use use(comm, "pack");
  sk_tensor tensor;
  set_tensor("b", b, &tensor);
  tensor.device_type = comm.device_type;
  tensor.device_id = comm.device_id;
  wait(&comm, [&] {
    sk_packed* packed = nullptr;
    const sk_status status = sk_pack(comm.get(), &tensor, flags, &packed);
    packed_.reset(packed);  // Here, for an interrupt may be raised behind it.
    return status;
  });
}

namespace {

// By its function in sk/op.h, whose sentences callers know, and which looks weights up in a fifth
// of the time that a call by number takes for them.
template <decltype(sk_allreduce_gemm)* function, typename Args>
sk_status multiply(sk_comm* comm, const void* given, const sk_run_options* options) {
  const Args& args = *static_cast<const Args*>(given);
  const uint32_t flags = (args.transpose_a != 0 ? SK_GEMM_TRANSPOSE_A : 0) |
                         (args.transpose_b != 0 ? SK_GEMM_TRANSPOSE_B : 0);
  return function(comm, args.a, args.b, args.b_packed, args.c, flags, options);
}

class MatrixOp {
 public:
  // Where in the struct its tensor is, where its packed weights are, 0 for none, and its name.
  using OperandRow = std::tuple<uint32_t, uint32_t, std::string>;

  // `flags`: where in the struct its attributes are. `by_number`: also where it has a function of
  // its own, for tests.
  MatrixOp(int32_t op, std::string name, uint32_t bytes, std::vector<OperandRow> operands,
           std::vector<uint32_t> flags, bool by_number)
      : op_(by_number ? 0 : op),
        number_(op),
        name_(std::move(name)),
        bytes_(bytes),
        operands_(std::move(operands)),
        flags_(std::move(flags)) {
    if (operands_.size() > kOperandsMax) check(SK_ERR_INTERNAL, "more matrices than expected");
  }

  // The same, kept for later.
  std::unique_ptr<Ready> keep(CommHandle& comm, const nb::list& given, uint32_t flags) const {
    CallStruct args(bytes_);
    Tensors tensors;
    set(comm, given, flags, &args, &tensors);
    return std::make_unique<Ready>(comm, number_, args.get());
  }

  // `given`: a matrix or packed weights for each operand. `flags`: a bit for each attribute.
  void call(CommHandle& comm, const nb::list& given, uint32_t flags, uintptr_t stream,
            int64_t timeout_ms) const {
    const CommHandle::Collective use(comm, name_.c_str());
    CallStruct args(bytes_);
    Tensors tensors;
    set(comm, given, flags, &args, &tensors);
    const sk_run_options options = options_of(stream, timeout_ms);
    // Calls without options are remembered: the next one with the same arguments skips checks.
    const sk_run_options* const own = stream != 0 || timeout_ms != 0 ? &options : nullptr;
    sk_comm* const c = comm.get();
    wait(&comm, [&] {
      switch (op_) {
        case SK_OP_ALLREDUCE_GEMM:
          return multiply<sk_allreduce_gemm, sk_allreduce_gemm_args>(c, args.get(), own);
        case SK_OP_ALLGATHER_GEMM:
          return multiply<sk_allgather_gemm, sk_allgather_gemm_args>(c, args.get(), own);
        default:
          return sk_call(c, number_, args.get(), own);
      }
    });
  }

 private:
  static constexpr size_t kOperandsMax = 8;
  using Tensors = std::array<sk_tensor, kOperandsMax>;

  void set(const CommHandle& comm, const nb::list& given, uint32_t flags, CallStruct* args,
           Tensors* tensors) const {
    if (given.size() != operands_.size()) check(SK_ERR_INTERNAL, "a matrix is missing");
    for (size_t i = 0; i < operands_.size(); ++i) {
      const auto& [offset, packed_offset, what] = operands_[i];
      const nb::object each = nb::borrow(PyList_GetItem(given.ptr(), Py_ssize_t(i)));
      const Packed* packed = nullptr;
      if (packed_offset != 0 && nb::try_cast(each, packed)) {
        args->put(packed_offset, packed->get());
        continue;
      }
      set_tensor(what.c_str(), nb::cast<Matrix>(each), &(*tensors)[i]);
      (*tensors)[i].device_type = comm.device_type;
      (*tensors)[i].device_id = comm.device_id;
      args->put(offset, static_cast<const void*>(&(*tensors)[i]));
    }
    for (size_t i = 0; i < flags_.size(); ++i) args->put(flags_[i], int32_t(flags >> i & 1));
  }

  int32_t op_;      // By whose function it is called; 0: by number.
  int32_t number_;  // As the schema has it.
  std::string name_;
  uint32_t bytes_;
  std::vector<OperandRow> operands_;
  std::vector<uint32_t> flags_;
};

}  // namespace

void bind_products(nb::module_& module) {
  nb::class_<Packed>(module, "Packed")
      .def(nb::init<CommHandle&, const Matrix&, uint32_t>(), nb::keep_alive<1, 2>());
  nb::class_<MatrixOp>(module, "MatrixOp")
      .def(nb::init<int32_t, std::string, uint32_t, std::vector<MatrixOp::OperandRow>,
                    std::vector<uint32_t>, bool>(),
           nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg("by_number") = false)
      .def("call", &MatrixOp::call)
      .def("keep", &MatrixOp::keep, nb::keep_alive<0, 2>());
}

}  // namespace sk::python
