// Contexts and communicators: who the ranks are, their memory, and their end.
#include <fcntl.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "bindings.h"
#include "blocking.h"
#include "context.h"
#include "ends.h"
#include "gil.h"
#include "sk/op.h"

namespace nb = nanobind;
using nb::literals::operator""_a;

namespace sk::python {
namespace {

// Ends a creation, from any thread. Copies are one; a creation that is left behind holds one.
class Cancel {
 public:
  Cancel() : event_(std::make_shared<Event>()) {}
  int fd() const { return event_->fd; }
  void request() const {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(event_->fd, &one, sizeof one);
  }

 private:
  struct Event {
    Event() : fd(make()) {
      if (fd < 0) check(SK_ERR_SYSTEM, std::string("eventfd: ") + std::strerror(errno));
    }
    ~Event() { close(fd); }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    // Never 0, which the process may have closed: as a config's cancel_fd that is none.
    static int make() {
      const int opened = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
      if (opened != 0) return opened;
      const int moved = fcntl(opened, F_DUPFD_CLOEXEC, 3);
      const int failure = errno;
      close(opened);
      errno = failure;
      return moved;
    }
    const int fd;
  };
  std::shared_ptr<Event> event_;
};

std::unique_ptr<CommHandle> handle_of(sk_comm* comm, int32_t device_type, int32_t device_id) {
  auto made = std::make_unique<CommHandle>(comm, device_type, device_id);
  sk_comm_info info = {};
  info.struct_size = sizeof info;
  check(sk_comm_query(comm, &info));
  made->rank = info.rank;
  made->world_size = info.world_size;
  return made;
}

std::unique_ptr<CommHandle> create(Context& context, int32_t bootstrap, int32_t rank,
                                   int32_t world_size, const std::optional<std::string>& name,
                                   int64_t timeout_ms, uint32_t flags, int32_t workers,
                                   uint64_t symmetric_bytes_max, int32_t device_type,
                                   int32_t device_id, const Cancel* cancel) {
  struct Request {
    sk_comm_config config = {};
    std::optional<std::string> name;
    Cancel cancel;
    sk_comm* comm = nullptr;
    std::shared_ptr<std::atomic<int>> creations;
    ~Request() { creations->fetch_sub(1); }
  };
  // Shared with the thread that creates, which an interrupt may leave behind.
  auto request = std::make_shared<Request>();
  request->creations = context.creations();
  request->creations->fetch_add(1);
  request->name = name;
  if (cancel != nullptr) request->cancel = *cancel;
  sk_comm_config& config = request->config;
  config.struct_size = sizeof config;
  config.bootstrap = bootstrap;
  config.rank = rank;
  config.world_size = world_size;
  config.name = request->name ? request->name->c_str() : nullptr;
  config.timeout_ms = timeout_ms;
  config.flags = flags;
  config.workers = workers;
  config.symmetric_bytes_max = symmetric_bytes_max;
  config.cancel_fd = request->cancel.fd();
  config.device_type = device_type;
  config.device_id = device_id;
  config.waiting = &InterruptScope::look;
  sk_context* const handle = context.get();
  wait_detached(
      [request, handle] { return sk_comm_create(handle, &request->config, &request->comm); },
      [request] { request->cancel.request(); }, [request] { sk_comm_free(request->comm); });
  return handle_of(request->comm, device_type, device_id);
}

// Of those that are left of `comm`. An interrupt aborts that, which ends what goes on behind it.
std::unique_ptr<CommHandle> shrink(CommHandle& comm, Context& context, int64_t timeout_ms) {
  const CommHandle::Collective use(comm, "shrink");
  struct Request {
    sk_comm* left = nullptr;
    std::shared_ptr<std::atomic<int>> creations;
    ~Request() { creations->fetch_sub(1); }
  };
  auto request = std::make_shared<Request>();
  request->creations = context.creations();
  request->creations->fetch_add(1);
  sk_comm* const old = comm.get();
  wait_detached(
      [request, old, timeout_ms] { return sk_comm_shrink(old, timeout_ms, &request->left); },
      [old] { sk_comm_abort(old, "interrupted"); }, [request] { sk_comm_free(request->left); });
  return handle_of(request->left, comm.device_type, comm.device_id);
}

nb::dict query(CommHandle& comm) {
  const CommHandle::Use use(comm, "info");
  sk_comm_info info = {};
  info.struct_size = sizeof info;
  check(sk_comm_query(comm.get(), &info));
  nb::dict out;
  out["rank"] = info.rank;
  out["world_size"] = info.world_size;
  out["local_rank"] = info.local_rank;
  out["local_size"] = info.local_size;
  out["workers"] = info.workers;
  out["mapped"] = bool(info.mapped);
  out["symmetric_bytes"] = info.symmetric_bytes;
  out["calls"] = info.calls;
  out["plans"] = info.plans;
  out["over"] = info.over;
  return out;
}

uintptr_t alloc(CommHandle& comm, uint64_t bytes) {
  const CommHandle::Collective use(comm, "empty");
  void* memory = nullptr;
  wait(&comm, [&] { return sk_alloc(comm.get(), bytes, &memory); });
  return reinterpret_cast<uintptr_t>(memory);
}

void synchronize(CommHandle& comm, uintptr_t stream, int64_t timeout_ms) {
  const CommHandle::Collective use(comm, "synchronize");
  const sk_run_options options = options_of(stream, timeout_ms);
  wait(&comm, [&] { return sk_comm_synchronize(comm.get(), &options); });
}

// `forget` is called once nobody else can be inside a call, and before anybody waits: it refuses by
// raising, or makes the memory unreachable.
void free_memory(CommHandle& comm, uintptr_t memory, const nb::object& forget) {
  const CommHandle::Collective use(comm, "free");
  contained([&] { forget(); });
  wait(&comm, [&] { return sk_free(comm.get(), pointer(memory)); });
}

// How many refer to `root`, the array of an allocation, and to the one item of `held`, the array
// that was handed out. Where those are not more than `most` the latter becomes one without
// elements, of which no view leads to the memory: no other thread of Python's comes in between.
nb::tuple forget_array(nb::handle root, const nb::list& held, Py_ssize_t most_of_root,
                       Py_ssize_t most_of_item, const nb::tuple& state) {
  PyObject* const item = PyList_GetItem(held.ptr(), 0);
  if (item == nullptr) throw nb::python_error();
  const Py_ssize_t of_root = Py_REFCNT(root.ptr()), of_item = Py_REFCNT(item);
  if (of_root <= most_of_root && of_item <= most_of_item) {
    const nb::object set = nb::handle(item).attr("__setstate__");
    set(state);
  }
  return nb::make_tuple(of_root, of_item);
}

}  // namespace

bool CommHandle::is_over() const {
  if (get() == nullptr) return true;
  if (inside_ != nullptr) return false;  // In use, so not over; nor is that thread to be disturbed.
  sk_comm_info info = {};
  info.struct_size = sizeof info;
  return sk_comm_query(get(), &info) == SK_OK && info.over != SK_OK;
}

void CommHandle::free() {
  Ends::retry();
  check_idle("free");
  if (pins_ > 0) check(SK_ERR_BUSY, "comm.free(): another thread is inside comm.abort()");
  freed_ = true;
  if (leases_ > 0 || comm_ == nullptr) return;
  Answer answer;
  try {
    InterruptScope scope(comm_);  // A GPU may have to be waited for.
    inside_ = "free";             // Another thread's free() must not take this one's for done.
    inside_thread_ = PyThread_get_thread_ident();
    answer = release();
    inside_ = nullptr;
    const GilReleased released;
    scope.leave();
  } catch (...) {  // An interrupt that was due before.
    freed_ = false;
    throw;
  }
  freed_ = comm_ == nullptr;
  check_signals();
  check(answer.status, answer.sentence);
}

void CommHandle::check_not_freed() const {
  if (freed_)
    check(
        SK_ERR_BAD_HANDLE,
        "this communicator was freed; libsk.Comm() makes another, and a notebook has a new one in "
        "the next cell");
}

// Not left to libsk, which knows neither the names of threads nor the cells that began them.
void CommHandle::refuse(const char* call) const {
  const nb::object error = contained([&] {
    return nb::module_::import_("libsk._errors").attr("busy")(call, inside_, inside_thread_);
  });
  PyErr_SetObject(error.type().ptr(), error.ptr());
  throw nb::python_error();
}

// In a forked child nothing of it is left to end.
CommHandle::Answer CommHandle::end(sk_comm* comm) {
  Answer answer;
  {
    const GilReleased released;  // The end may wait and log, and the log function wants it.
    answer.status = sk_comm_free(comm);
    if (answer.status != SK_OK) answer.sentence = sk_last_error();
  }
  return answer.status == SK_ERR_FORKED ? Answer() : answer;
}

// Ends it, or leaves it as it is and says why.
CommHandle::Answer CommHandle::release() {
  if (comm_ == nullptr) return {};
  Answer answer = end(comm_);
  if (answer.status == SK_OK) comm_ = nullptr;
  return answer;
}

// For ends that have nobody to hand an error to.
void CommHandle::release_or_log() {
  const Answer answer = release();
  if (!Ends::is_refused(answer.status)) return report(answer);
  Ends::keep([comm = std::exchange(comm_, nullptr)] {
    const Answer later = end(comm);
    if (!Ends::is_refused(later.status)) report(later);
    return later.status;
  });
}

void CommHandle::report(const Answer& answer) {
  try {
    check(answer.status, answer.sentence);
  } catch (nb::python_error& error) {
    error.discard_as_unraisable("the end of a libsk communicator");
  }
}

void bind_comm(nb::module_& module) {
  nb::class_<Context>(module, "Context")
      .def(nb::init<int32_t, nb::object>(), "log_level"_a, "log"_a.none());
  nb::class_<CommHandle> comm(module, "Comm");
  comm.def("query", &query)
      .def("is_over", &CommHandle::is_over)
      .def("set_admit", [](CommHandle& comm, nb::object admit) { comm.admit = std::move(admit); })
      .def("free", &CommHandle::free)
      .def("shrink", &shrink, nb::keep_alive<0, 2>())
      .def("abort",
           [](CommHandle& comm, const std::string& reason) {
             const CommHandle::Pin pin(comm);
             sk_status status;
             std::string sentence;
             {
               GilReleased released;
               status = sk_comm_abort(comm.get(), reason.c_str());
               sentence = status == SK_OK ? "" : sk_last_error();
             }
             check(status, sentence);
           })
      .def("synchronize", &synchronize)
      .def("alloc", &alloc)
      .def("free_memory", &free_memory);
  module.def("forget_array", &forget_array);
  nb::class_<CommHandle::Lease>(module, "Lease")
      .def(nb::init<CommHandle&>(), nb::keep_alive<1, 2>());
  nb::class_<Cancel>(module, "Cancel").def(nb::init<>()).def("request", &Cancel::request);
  module.def("create", &create, nb::keep_alive<0, 1>(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
             nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
             nb::arg("cancel").none());
}

}  // namespace sk::python
