// GEMM with packed weights, plans and traces.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <memory>
#include <string>
#include <tuple>

#include "bindings.h"
#include "blocking.h"
#include "sk/op.h"
#include "sk/trace.h"
#include "text.h"

namespace nb = nanobind;

namespace sk::python {
namespace {

// Address, dtype, rows, columns, elements from row to row.
using Matrix = std::tuple<uintptr_t, int32_t, int64_t, int64_t, int64_t>;

sk_tensor tensor_of(const CommHandle& comm, const Matrix& matrix) {
  sk_tensor tensor = {};
  tensor.struct_size = sizeof tensor;
  tensor.data = pointer(std::get<0>(matrix));
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
    const CommHandle::Use use(comm);
    const sk_tensor tensor = tensor_of(comm, b);
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

void allreduce_gemm(CommHandle& comm, const Matrix& a, const std::optional<Matrix>& b,
                    const Packed* packed, const Matrix& c, uint32_t flags, uintptr_t stream,
                    int64_t timeout_ms) {
  const CommHandle::Use use(comm);
  const sk_tensor a_tensor = tensor_of(comm, a);
  const sk_tensor b_tensor = b ? tensor_of(comm, *b) : sk_tensor{};
  sk_tensor c_tensor = tensor_of(comm, c);
  const sk_run_options options = options_of(stream, timeout_ms);
  wait(&comm, [&] {
    return sk_allreduce_gemm(comm.get(), &a_tensor, b ? &b_tensor : nullptr,
                             packed != nullptr ? packed->get() : nullptr, &c_tensor, flags,
                             &options);
  });
}

class Plan {
 public:
  Plan(CommHandle& comm, int32_t kind, int32_t dtype, int32_t out_dtype, int32_t op, int32_t root,
       int32_t peer, uint32_t flags, int64_t count, int64_t m, int64_t n, int64_t k)
      : comm_(comm) {
    sk_plan_desc desc = {};
    desc.struct_size = sizeof desc;
    desc.kind = kind;
    desc.dtype = dtype;
    desc.out_dtype = out_dtype;
    desc.op = op;
    desc.root = root;
    desc.peer = peer;
    desc.flags = flags;
    desc.count = count;
    desc.m = m;
    desc.n = n;
    desc.k = k;
    const CommHandle::Use use(comm);
    wait(nullptr, [&] { return sk_plan_create(comm.get(), &desc, &plan_); });
  }
  ~Plan() { sk_plan_free(plan_); }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  void run(uintptr_t in, const Packed* weights, uintptr_t out, uintptr_t stream,
           int64_t timeout_ms) {
    if (comm_.get() == nullptr) {
      check(SK_ERR_BAD_HANDLE, "plan.run(): the plan's communicator was freed");
    }
    const CommHandle::Use use(comm_);
    const sk_run_options options = options_of(stream, timeout_ms);
    wait(&comm_, [&] {
      return sk_plan_run(plan_, pointer(in), weights != nullptr ? weights->get() : nullptr,
                         pointer(out), &options);
    });
  }

  std::string dump() const {
    return text_of([&](char* buffer, size_t capacity, size_t* size) {
      return sk_plan_dump(plan_, buffer, capacity, size);
    });
  }

 private:
  CommHandle& comm_;  // Kept by nb::keep_alive.
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
      .def("dump", &Plan::dump);
  module.def("allreduce_gemm", &allreduce_gemm, nb::arg(), nb::arg(), nb::arg().none(),
             nb::arg().none(), nb::arg(), nb::arg(), nb::arg(), nb::arg());
  module.def("plan_check",
             [](const std::string& text) { check(sk_plan_check(text.data(), text.size())); });
  module.def("trace_start", [](CommHandle& comm, uint64_t event_count_max) {
    const CommHandle::Use use(comm);
    wait(&comm, [&] { return sk_trace_start(comm.get(), event_count_max); });
  });
  module.def("trace_stop", [](CommHandle& comm) { check(sk_trace_stop(comm.get())); });
  module.def("trace_dump", [](CommHandle& comm) {
    const CommHandle::Use use(comm);
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
