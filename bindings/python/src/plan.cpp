// GEMM with packed weights, plans and traces.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <string>

#include "bindings.h"
#include "blocking.h"
#include "plain_array.h"
#include "sk/op.h"
#include "sk/trace.h"
#include "text.h"

namespace nb = nanobind;

namespace sk::python {
namespace {

sk_tensor tensor_of(const CommHandle& comm, const char* what, const Matrix& matrix) {
  sk_tensor tensor = {};
  tensor.struct_size = sizeof tensor;
  tensor.data = held(what, matrix);
  tensor.dtype = std::get<1>(matrix);
  tensor.ndim = 2;
  tensor.device_type = comm.device_type;
  tensor.device_id = comm.device_id;
  tensor.shape[0] = std::get<2>(matrix);
  tensor.shape[1] = std::get<3>(matrix);
  tensor.strides[0] = std::get<4>(matrix);
  tensor.strides[1] = 1;
  return tensor;
}

class Packed {
 public:
  Packed(CommHandle& comm, const Matrix& b, uint32_t flags) {
    const CommHandle::Use use(comm, "pack");
    const sk_tensor tensor = tensor_of(comm, "b", b);
    wait(&comm, [&] {
      sk_packed* packed = nullptr;
      const sk_status status = sk_pack(comm.get(), &tensor, flags, &packed);
      packed_.reset(packed);  // Here, for an interrupt may be raised behind it.
      return status;
    });
  }
  const sk_packed* get() const { return packed_.get(); }

 private:
  struct Free {
    void operator()(sk_packed* packed) const {
      // A GPU's driver gives memory back only when everything that runs there is done.
      const nb::gil_scoped_release released;
      sk_packed_free(packed);
    }
  };
  std::unique_ptr<sk_packed, Free> packed_;
};

template <decltype(sk_allreduce_gemm)* call>
void multiply(const char* name, CommHandle& comm, const Matrix& a, const std::optional<Matrix>& b,
              const Packed* packed, const Matrix& c, uint32_t flags, uintptr_t stream,
              int64_t timeout_ms) {
  const CommHandle::Collective use(comm, name);
  const sk_tensor a_tensor = tensor_of(comm, "a", a);
  const sk_tensor b_tensor = b ? tensor_of(comm, "b", *b) : sk_tensor{};
  sk_tensor c_tensor = tensor_of(comm, "out", c);
  const sk_run_options options = options_of(stream, timeout_ms);
  wait(&comm, [&] {
    return call(comm.get(), &a_tensor, b ? &b_tensor : nullptr,
                packed != nullptr ? packed->get() : nullptr, &c_tensor, flags, &options);
  });
}

// A function of the module, which has the C function's name without its prefix.
template <decltype(sk_allreduce_gemm)* call>
void bind_product(nb::module_& module, const char* name) {
  module.def(
      name,
      [name](CommHandle& comm, const Matrix& a, const std::optional<Matrix>& b,
             const Packed* packed, const Matrix& c, uint32_t flags, uintptr_t stream,
             int64_t timeout_ms) {
        multiply<call>(name, comm, a, b, packed, c, flags, stream, timeout_ms);
      },
      nb::arg(), nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg(),
      nb::arg());
}

class Plan {
 public:
  Plan(CommHandle& comm, int32_t kind, int32_t dtype, int32_t out_dtype, int32_t op, int32_t root,
       int32_t peer, uint32_t flags, int64_t count, int64_t m, int64_t n, int64_t k)
      : comm_(comm) {
    desc_.struct_size = sizeof desc_;
    desc_.kind = kind;
    desc_.dtype = dtype;
    desc_.out_dtype = out_dtype;
    desc_.op = op;
    desc_.root = root;
    desc_.peer = peer;
    desc_.flags = flags;
    desc_.count = count;
    desc_.m = m;
    desc_.n = n;
    desc_.k = k;
    const CommHandle::Use use(comm, "plan");
    wait(nullptr, [&] { return sk_plan_create(comm.get(), &desc_, &plan_); });
  }
  ~Plan() { sk_plan_free(plan_); }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  void run(const Span& in, const Packed* weights, const Span& out, uintptr_t stream,
           int64_t timeout_ms) {
    if (comm_.get() == nullptr) {
      check(SK_ERR_BAD_HANDLE, "plan.run(): the plan's communicator was freed");
    }
    const CommHandle::Collective use(comm_, "plan.run");
    const sk_run_options options = options_of(stream, timeout_ms);
    const sk_run_options* const given = stream != 0 || timeout_ms != 0 ? &options : nullptr;
    const auto [reads, writes] = extents();
    const void* const from = held("x", in, reads.rows, reads.cols, reads.dtype);
    void* const to = held("out", out, writes.rows, writes.cols, writes.dtype);
    wait(&comm_, [&] {
      return sk_plan_run(plan_, from, weights != nullptr ? weights->get() : nullptr, to, given);
    });
  }

  // run() of plain arrays, whole, as in collectives.cpp, where the result is shaped as they are.
  nb::object try_run(nb::handle x, nb::handle out) {
    PlainArray in;
    if (comm_.get() == nullptr || !look(comm_, x, &in)) return nb::none();
    const auto [reads, writes] = extents();
    const bool is_alike = desc_.kind == SK_OP_ALLREDUCE || desc_.kind == SK_OP_BROADCAST;
    if (!is_alike || in.dtype() != reads.dtype || in.count() != reads.rows * reads.cols)
      return nb::none();
    PlainResult result;
    if (!result.make(comm_, out, x, in, in.shape())) return nb::none();
    run(in.span(), nullptr, result.span(), 0, 0);
    return result.take();
  }

  std::string dump() const {
    return text_of([&](char* buffer, size_t capacity, size_t* size) {
      return sk_plan_dump(plan_, buffer, capacity, size);
    });
  }

 private:
  // How many elements of an operand a rank touches: rows * cols, of `dtype`.
  struct Extent {
    int64_t rows, cols;
    int32_t dtype;
  };
  struct Extents {
    Extent in, out;
  };
  // No default: a kind that is added says here what it touches.
  Extents extents() const {
    const int64_t count = desc_.count, all = comm_.world_size;
    const auto of = [&](int64_t copies) { return Extent{count, copies, desc_.dtype}; };
    switch (sk_op_kind(desc_.kind)) {
      case SK_OP_BARRIER:
        return {{0, 0, SK_F32}, {0, 0, SK_F32}};
      case SK_OP_ALLREDUCE:
      case SK_OP_BROADCAST:
        return {of(1), of(1)};
      case SK_OP_ALLGATHER:
        return {of(1), of(all)};
      case SK_OP_REDUCE_SCATTER:
        return {of(all), of(1)};
      case SK_OP_SEND_RECV:
        return {of(comm_.rank == desc_.root ? 1 : 0), of(comm_.rank == desc_.peer ? 1 : 0)};
      case SK_OP_ALLREDUCE_GEMM:
      case SK_OP_ALLGATHER_GEMM: {
        const int64_t blocks = desc_.kind == SK_OP_ALLGATHER_GEMM ? all : 1;
        return {{desc_.m, desc_.k, desc_.dtype},
                {blocks * desc_.m, desc_.n, desc_.out_dtype != 0 ? desc_.out_dtype : desc_.dtype}};
      }
    }
    refuse("kind", {}, desc_.count, 1, desc_.dtype);
  }

  CommHandle& comm_;  // Kept by nb::keep_alive.
  sk_plan_desc desc_ = {};
  sk_plan* plan_ = nullptr;
};

}  // namespace

void bind_plan(nb::module_& module) {
  nb::class_<Packed>(module, "Packed")
      .def(nb::init<CommHandle&, const Matrix&, uint32_t>(), nb::keep_alive<1, 2>());
  nb::class_<Plan>(module, "Plan")
      .def(nb::init<CommHandle&, int32_t, int32_t, int32_t, int32_t, int32_t, int32_t, uint32_t,
                    int64_t, int64_t, int64_t, int64_t>(),
           nb::keep_alive<1, 2>())
      .def("run", &Plan::run, nb::arg(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg())
      .def("try_run", &Plan::try_run, nb::arg().none(), nb::arg().none())
      .def("dump", &Plan::dump);
  bind_product<sk_allreduce_gemm>(module, "allreduce_gemm");
  bind_product<sk_allgather_gemm>(module, "allgather_gemm");
  module.def("plan_check",
             [](const std::string& text) { check(sk_plan_check(text.data(), text.size())); });
  module.def("trace_start", [](CommHandle& comm, uint64_t event_count_max) {
    const CommHandle::Use use(comm, "trace");
    wait(&comm, [&] { return sk_trace_start(comm.get(), event_count_max); });
  });
  module.def("trace_stop", [](CommHandle& comm) { check(sk_trace_stop(comm.get())); });
  module.def("trace_dump", [](CommHandle& comm) {
    const CommHandle::Use use(comm, "trace");
    std::string text;
    wait(&comm, [&] {
      return read_text(
          [&](char* buffer, size_t capacity, size_t* size) {
            return sk_trace_dump(comm.get(), buffer, capacity, size);
          },
          text);
    });
    return text;
  });
}

}  // namespace sk::python
