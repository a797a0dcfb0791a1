// Collectives, on memory that the Python files have settled, and a short way for plain arrays.
//
// Each try_...() below is the whole call where all of its arguments are of the common kind: arrays
// that lie as they are used, numbers and names as they are meant. Where one is not, it returns None
// and has done nothing; libsk/_operations.py then goes the long way, which makes copies or says
// what is wrong. So no sentence and no conversion is here.
#include <algorithm>
#include <array>
#include <string_view>

#include "bindings.h"
#include "blocking.h"
#include "plain_array.h"
#include "sk/op.h"

namespace nb = nanobind;

namespace sk::python {
namespace {

// Runs `call(comm, options)` as the blocking call `name` of this communicator.
template <typename Call>
void run(const char* name, CommHandle& comm, uintptr_t stream, int64_t timeout_ms, Call&& call) {
  const CommHandle::Collective use(comm, name);
  const sk_run_options options = options_of(stream, timeout_ms);
  // Calls without options are remembered: the next one with the same arguments skips their checks.
  const sk_run_options* const given = stream != 0 || timeout_ms != 0 ? &options : nullptr;
  wait(&comm, [&] { return call(comm.get(), given); });
}

void allreduce(CommHandle& comm, const Span& in, const Span& out, int64_t count, int32_t dtype,
               int32_t op, uintptr_t stream, int64_t timeout_ms) {
  const void* const from = held("x", in, count, 1, dtype);
  void* const to = held("out", out, count, 1, dtype);
  run("allreduce", comm, stream, timeout_ms, [&](sk_comm* c, const sk_run_options* o) {
    return sk_allreduce(c, from, to, count, dtype, op, o);
  });
}

void allgather(CommHandle& comm, const Span& in, const Span& out, int64_t count, int32_t dtype,
               uintptr_t stream, int64_t timeout_ms) {
  const void* const from = held("x", in, count, 1, dtype);
  void* const to = held("out", out, count, comm.world_size, dtype);
  run("allgather", comm, stream, timeout_ms, [&](sk_comm* c, const sk_run_options* o) {
    return sk_allgather(c, from, to, count, dtype, o);
  });
}

void reduce_scatter(CommHandle& comm, const Span& in, const Span& out, int64_t count, int32_t dtype,
                    int32_t op, uintptr_t stream, int64_t timeout_ms) {
  const void* const from = held("x", in, count, comm.world_size, dtype);
  void* const to = held("out", out, count, 1, dtype);
  run("reduce_scatter", comm, stream, timeout_ms, [&](sk_comm* c, const sk_run_options* o) {
    return sk_reduce_scatter(c, from, to, count, dtype, op, o);
  });
}

void broadcast(CommHandle& comm, const Span& in, const Span& out, int64_t count, int32_t dtype,
               int32_t root, uintptr_t stream, int64_t timeout_ms) {
  const void* const from = held("x", in, count, 1, dtype);
  void* const to = held("out", out, count, 1, dtype);
  run("broadcast", comm, stream, timeout_ms, [&](sk_comm* c, const sk_run_options* o) {
    return sk_broadcast(c, from, to, count, dtype, root, o);
  });
}

void barrier(CommHandle& comm, uintptr_t stream, int64_t timeout_ms) {
  run("barrier", comm, stream, timeout_ms,
      [](sk_comm* c, const sk_run_options* o) { return sk_barrier(c, o); });
}

void send(CommHandle& comm, const Span& in, int64_t count, int32_t dtype, int32_t peer,
          uintptr_t stream, int64_t timeout_ms) {
  const void* const from = held("x", in, count, 1, dtype);
  run("send", comm, stream, timeout_ms,
      [&](sk_comm* c, const sk_run_options* o) { return sk_send(c, from, count, dtype, peer, o); });
}

void recv(CommHandle& comm, const Span& out, int64_t count, int32_t dtype, int32_t peer,
          uintptr_t stream, int64_t timeout_ms) {
  void* const to = held("out", out, count, 1, dtype);
  run("recv", comm, stream, timeout_ms,
      [&](sk_comm* c, const sk_run_options* o) { return sk_recv(c, to, count, dtype, peer, o); });
}

void synchronize(CommHandle& comm, uintptr_t stream, int64_t timeout_ms) {
  run("synchronize", comm, stream, timeout_ms,
      [](sk_comm* c, const sk_run_options* o) { return sk_comm_synchronize(c, o); });
}

// ---- the short way ----

constexpr std::array<std::string_view, 5> kReductions = {"sum", "prod", "min", "max", "avg"};

// Its number in enum sk_redop; 0: it is no name of one.
int32_t reduction(nb::handle name) {
  if (!PyUnicode_CheckExact(name.ptr())) return 0;
  Py_ssize_t size = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(name.ptr(), &size);
  if (text == nullptr) {
    PyErr_Clear();
    return 0;
  }
  const auto found = std::ranges::find(kReductions, std::string_view(text, size_t(size)));
  return found == kReductions.end() ? 0 : int32_t(found - kReductions.begin()) + SK_SUM;
}

bool is_number(nb::handle value, int32_t* out) {
  if (!PyLong_CheckExact(value.ptr())) return false;
  const long number = PyLong_AsLong(value.ptr());
  if (number == -1 && PyErr_Occurred() != nullptr) PyErr_Clear();
  *out = int32_t(number);
  return *out == number && number >= 0;
}

nb::object try_allreduce(CommHandle& comm, nb::handle x, nb::handle op, nb::handle out) {
  PlainArray source;
  PlainResult result;
  const int32_t number = reduction(op);
  if (number == 0 || !look(comm, x, &source) || !result.make(comm, out, x, source, source.shape()))
    return nb::none();
  allreduce(comm, source.span(), result.span(), source.count(), source.dtype(), number, 0, 0);
  return result.take();
}

nb::object try_allgather(CommHandle& comm, nb::handle x, nb::handle out) {
  PlainArray source;
  if (!look(comm, x, &source)) return nb::none();
  Shape shape;
  shape.push(comm.world_size);
  for (const Py_ssize_t size : source.shape()) shape.push(size);
  PlainResult result;
  if (!result.make(comm, out, x, source, shape.get())) return nb::none();
  allgather(comm, source.span(), result.span(), source.count(), source.dtype(), 0, 0);
  return result.take();
}

nb::object try_reduce_scatter(CommHandle& comm, nb::handle x, nb::handle op, nb::handle out) {
  PlainArray source;
  const int32_t number = reduction(op);
  if (number == 0 || !look(comm, x, &source) || source.shape().empty() ||
      source.shape()[0] % comm.world_size != 0)
    return nb::none();
  Shape shape;
  shape.push(source.shape()[0] / comm.world_size);
  for (const Py_ssize_t size : source.shape().subspan(1)) shape.push(size);
  PlainResult result;
  if (!result.make(comm, out, x, source, shape.get())) return nb::none();
  reduce_scatter(comm, source.span(), result.span(), source.count() / comm.world_size,
                 source.dtype(), number, 0, 0);
  return result.take();
}

nb::object try_broadcast(CommHandle& comm, nb::handle x, nb::handle root, nb::handle out) {
  PlainArray source;
  PlainResult result;
  int32_t number = 0;
  if (!is_number(root, &number) || !look(comm, x, &source) ||
      !result.make(comm, out, x, source, source.shape()))
    return nb::none();
  broadcast(comm, source.span(), result.span(), source.count(), source.dtype(), number, 0, 0);
  return result.take();
}

bool try_send(CommHandle& comm, nb::handle x, nb::handle peer) {
  PlainArray source;
  int32_t number = 0;
  if (!is_number(peer, &number) || !look(comm, x, &source)) return false;
  send(comm, source.span(), source.count(), source.dtype(), number, 0, 0);
  return true;
}

bool try_recv(CommHandle& comm, nb::handle out, nb::handle peer) {
  PlainArray target;
  int32_t number = 0;
  if (!is_number(peer, &number) || !look(comm, out, &target) || target.read_only()) return false;
  recv(comm, target.span(), target.count(), target.dtype(), number, 0, 0);
  return true;
}

}  // namespace

void bind_collectives(nb::class_<CommHandle>& comm) {
  const auto any = nb::arg().none();
  comm.def("allreduce", &allreduce)
      .def("allgather", &allgather)
      .def("reduce_scatter", &reduce_scatter)
      .def("broadcast", &broadcast)
      .def("barrier", &barrier)
      .def("send", &send)
      .def("recv", &recv)
      .def("synchronize", &synchronize)
      .def("try_allreduce", &try_allreduce, any, any, any)
      .def("try_allgather", &try_allgather, any, any)
      .def("try_reduce_scatter", &try_reduce_scatter, any, any, any)
      .def("try_broadcast", &try_broadcast, any, any, any)
      .def("try_send", &try_send, any, any)
      .def("try_recv", &try_recv, any, any);
}

}  // namespace sk::python
