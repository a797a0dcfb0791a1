// The parts of the extension module; each adds its classes and functions.
#ifndef LIBSK_PYTHON_BINDINGS_H_
#define LIBSK_PYTHON_BINDINGS_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>

#include "gil.h"
#include "memory.h"
#include "sk/comm.h"
#include "sk/op.h"

namespace sk::python {

void bind_collectives(nanobind::module_& module);
void bind_comm(nanobind::module_& module);
void bind_list_op(nanobind::module_& module);
void bind_local(nanobind::module_& module);
void bind_local_op(nanobind::module_& module);
void bind_plan(nanobind::module_& module);
void bind_products(nanobind::module_& module);
void bind_ready(nanobind::module_& module);
void bind_dlpack(nanobind::module_& module);
void bind_session(nanobind::module_& module);
void bind_tile(nanobind::module_& module);
void bind_topo(nanobind::module_& module);
void bind_worker(nanobind::module_& module);
void bind_writes(nanobind::module_& module);

// Where and how long a call runs. A stream of 0 is the default one.
inline sk_run_options options_of(uintptr_t stream, int64_t timeout_ms) {
  sk_run_options options = {};
  options.struct_size = sizeof options;
  options.stream = pointer(stream);
  options.timeout_ms = timeout_ms;
  return options;
}

// A communicator, with what keeps its release from racing with calls and with arrays that look
// into its memory. All members are touched with the GIL held only.
class CommHandle {
 public:
  CommHandle(sk_comm* comm, int32_t device_type, int32_t device_id)
      : device_type(device_type), device_id(device_id), comm_(comm) {}
  ~CommHandle() { release_or_log(); }
  CommHandle(const CommHandle&) = delete;
  CommHandle& operator=(const CommHandle&) = delete;

  // As in sk_comm_config.
  const int32_t device_type, device_id;

  // As in sk_comm_info; create() sets them.
  int32_t rank = 0, world_size = 1;

  // Called with the name of each collective call before it; null: all are let in.
  nanobind::object admit;

  // NULL after free(): libsk then answers SK_ERR_BAD_HANDLE, with its sentence.
  sk_comm* get() const { return freed_ ? nullptr : comm_; }

  // Whether no call can succeed any more: a rank died or aborted, a wait ran out, it was freed.
  bool is_over() const;

  // Ends the communicator for callers at once, and for good once no lease is left. Where libsk says
  // that it cannot end yet, it raises that and the communicator is as it was.
  void free();

  // One call that is inside libsk: others, and free(), are refused while there is one, with the
  // name of the thread whose it is. `call` is what users call it, and lives for ever.
  class Use {
   public:
    Use(CommHandle& handle, const char* call) : handle_(handle) {
      handle_.check_not_freed();
      handle_.check_idle(call);
      handle_.inside_ = call;
      handle_.inside_thread_ = PyThread_get_thread_ident();
    }
    ~Use() { handle_.inside_ = nullptr; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    CommHandle& handle_;
  };

  // One that all ranks enter, in one order. `admit` may refuse it by raising.
  class Collective : Use {
   public:
    Collective(CommHandle& handle, const char* call) : Use(admitted(handle, call), call) {}

   private:
    static CommHandle& admitted(CommHandle& handle, const char* call) {
      if (handle.admit.is_valid()) contained([&] { handle.admit(call); });
      return handle;
    }
  };

  // An abort(), which may come while a call is inside; free() is refused meanwhile, too.
  class Pin {
   public:
    explicit Pin(CommHandle& handle) : handle_(handle) {
      handle_.check_not_freed();
      ++handle_.pins_;
    }
    ~Pin() { --handle_.pins_; }
    Pin(const Pin&) = delete;
    Pin& operator=(const Pin&) = delete;

   private:
    CommHandle& handle_;
  };

  // One symmetric allocation that Python can reach.
  class Lease {
   public:
    explicit Lease(CommHandle& handle) : handle_(handle) { ++handle_.leases_; }
    ~Lease() {
      if (--handle_.leases_ == 0 && handle_.freed_) handle_.release_or_log();
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

   private:
    CommHandle& handle_;  // Kept by nb::keep_alive.
  };

 private:
  struct Answer {
    sk_status status = SK_OK;
    std::string sentence;
  };
  void check_not_freed() const;
  void check_idle(const char* call) const {
    if (inside_ != nullptr) refuse(call);
  }
  [[noreturn]] void refuse(const char* call) const;
  static Answer end(sk_comm* comm);
  static void report(const Answer& answer);
  Answer release();
  void release_or_log();

  sk_comm* comm_;
  const char* inside_ = nullptr;  // The call that is; null: none is.
  unsigned long inside_thread_ = 0;
  int pins_ = 0;
  int leases_ = 0;
  bool freed_ = false;
};

}  // namespace sk::python

#endif  // LIBSK_PYTHON_BINDINGS_H_
