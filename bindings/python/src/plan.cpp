// Plans and traces.
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "bindings.h"
#include "blocking.h"
#include "ends.h"
#include "packed.h"
#include "plain_array.h"
#include "sk/op.h"
#include "sk/trace.h"
#include "text.h"

namespace nb = nanobind;

namespace sk::python {
namespace {

using Fields = std::map<std::string, int64_t>;

// An operand as the schema has it: its shape, and the field that names the one rank which has it;
// then its type. No shape: the plan's operation has none of the kind.
using OperandRow = std::tuple<std::string, std::string, int32_t>;

// How many elements a rank touches of an operand of this shape: "world * m, n". Of numbers below 0
// and beyond 64 bits libsk refuses the plan.
int64_t elements_of(const OperandRow& operand, const Fields& fields, const CommHandle& comm) {
  const auto& [shape, only_on, dtype] = operand;
  const auto value = [&](std::string_view name) -> int64_t {
    if (name == "world") return comm.world_size;
    const auto found = fields.find(std::string(name));
    if (found == fields.end()) {
      check(SK_ERR_INTERNAL, "a plan's operand has a shape of names that the plan has not");
    }
    return found->second;
  };
  if (shape.empty() || (!only_on.empty() && value(only_on) != comm.rank)) return 0;
  int64_t elements = 1;
  for (size_t at = 0; at < shape.size();) {
    const size_t end = std::min(shape.find_first_of(" ,*", at), shape.size());
    if (end > at && __builtin_mul_overflow(
                        elements, value(std::string_view(shape).substr(at, end - at)), &elements)) {
      check(SK_ERR_INTERNAL, "a plan has more elements than memory has");
    }
    at = end + 1;
  }
  return elements;
}

class Plan {
 public:
  // A kind's, of sk_plan_create(): `fields` are those of sk_plan_desc.
  Plan(CommHandle& comm, const Fields& fields, const OperandRow& in, const OperandRow& out)
      : comm_(comm) {
    make([&](sk_plan** plan) {
      const sk_plan_desc desc = desc_of(fields);
      return sk_plan_create(comm.get(), &desc, plan);
    });
    know({fields, in, out});
  }
  // Of a plan's text. `read` says of which fields and operands, from the text as dump() writes it:
  // what a text may be else only the library reads.
  Plan(CommHandle& comm, const std::string& text, const nb::object& read) : comm_(comm) {
    make([&](sk_plan** plan) { return sk_plan_parse(comm.get(), text.data(), text.size(), plan); });
    know(nb::cast<Description>(contained([&] { return read(dump()); })));
  }
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
    const void* const from = held("x", in, in_.elements, 1, in_.dtype);
    void* const to = held("out", out, out_.elements, 1, out_.dtype);
    wait(&comm_, [&] {
      return sk_plan_run(plan_.get(), from, weights != nullptr ? weights->get() : nullptr, to,
                         given);
    });
  }

  // run() of plain arrays, whole, as in collectives.cpp, where the result is shaped as they are.
  nb::object try_run(nb::handle x, nb::handle out) {
    if (!alike_ || comm_.get() == nullptr || !is_on_host(comm_)) return nb::none();
    PlainArrays arrays;
    PlainArray in;
    if (!arrays.look(x, &in) || in.dtype() != in_.dtype || in.count() != in_.elements)
      return nb::none();
    PlainResult result;
    if (!result.make(arrays, out, x, in, in.shape())) return nb::none();
    arrays.written_by([&] {
      run(in.span(), nullptr, result.span(), 0, 0);
      return true;
    });
    return result.take();
  }

  int rank() const { return comm_.rank; }

  std::string dump() const {
    return text_of([&](char* buffer, size_t capacity, size_t* size) {
      return sk_plan_dump(plan_.get(), buffer, capacity, size);
    });
  }

 private:
  struct Free {
    void operator()(sk_plan* plan) const {
      (void)Ends::now_or_later([plan] { return sk_plan_free(plan); });
    }
  };
  // What a rank touches of an operand.
  struct Extent {
    int64_t elements = 0;
    int32_t dtype = 0;
  };

  // The fields, the operand that is read, and the one that is written.
  using Description = std::tuple<Fields, OperandRow, OperandRow>;

  template <typename Making>
  void make(const Making& making) {
    const CommHandle::Use use(comm_, "plan");
    wait(nullptr, [&] {
      sk_plan* plan = nullptr;
      const sk_status status = making(&plan);
      plan_.reset(plan);  // Here, for an interrupt may be raised behind it.
      return status;
    });
  }
  void know(const Description& description) {
    const auto& [fields, in, out] = description;
    in_ = {elements_of(in, fields, comm_), std::get<2>(in)};
    out_ = {elements_of(out, fields, comm_), std::get<2>(out)};
    alike_ = !std::get<0>(in).empty() && std::get<0>(in) == std::get<0>(out) &&
             std::get<2>(in) == std::get<2>(out) && std::get<1>(out).empty();
  }

  static sk_plan_desc desc_of(const Fields& fields) {
    const auto of = [&](const char* name) {
      const auto found = fields.find(name);
      return found == fields.end() ? 0 : found->second;
    };
    sk_plan_desc desc = {};
    desc.struct_size = sizeof desc;
    desc.kind = int32_t(of("kind"));
    desc.dtype = int32_t(of("dtype"));
    desc.out_dtype = int32_t(of("out_dtype"));
    desc.op = int32_t(of("op"));
    desc.root = int32_t(of("root"));
    desc.peer = int32_t(of("peer"));
    desc.flags = uint32_t(of("flags"));
    desc.count = of("count");
    desc.m = of("m");
    desc.n = of("n");
    desc.k = of("k");
    return desc;
  }

  CommHandle& comm_;  // Kept by nb::keep_alive.
  Extent in_, out_;
  bool alike_ = false;  // The result is shaped as the input is.
  std::unique_ptr<sk_plan, Free> plan_;
};

}  // namespace

void bind_plan(nb::module_& module) {
  nb::class_<Plan>(module, "Plan")
      .def(nb::init<CommHandle&, const Fields&, const OperandRow&, const OperandRow&>(),
           nb::keep_alive<1, 2>())
      .def(nb::init<CommHandle&, const std::string&, const nb::object&>(), nb::keep_alive<1, 2>())
      .def("run", &Plan::run, nb::arg(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg())
      .def("try_run", &Plan::try_run, nb::arg().none(), nb::arg().none())
      .def_prop_ro("rank", &Plan::rank)
      .def("dump", &Plan::dump);
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
