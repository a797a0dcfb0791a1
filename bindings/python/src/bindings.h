// The parts of the extension module; each adds its classes and functions.
#ifndef LIBSK_PYTHON_BINDINGS_H_
#define LIBSK_PYTHON_BINDINGS_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>

#include "memory.h"
#include "sk/comm.h"
#include "sk/op.h"

namespace sk::python {

void bind_comm(nanobind::module_& module);
void bind_plan(nanobind::module_& module);
void bind_dlpack(nanobind::module_& module);
void bind_topo(nanobind::module_& module);
void bind_worker(nanobind::module_& module);

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

  // NULL after free(): libsk then answers SK_ERR_BAD_HANDLE, with its sentence.
  sk_comm* get() const { return freed_ ? nullptr : comm_; }

  // Whether no call can succeed any more: a rank died or aborted, a wait ran out, it was freed.
  bool is_over() const;

  // Ends the communicator for callers at once, and for good once no lease is left. Where libsk says
  // that it cannot end yet, it raises that and the communicator is as it was.
  void free();

  // One call that is inside libsk: free() refuses while there is one.
  class Use {
   public:
    explicit Use(CommHandle& handle) : handle_(handle) {
      handle_.check_not_freed();
      ++handle_.uses_;
    }
    ~Use() { --handle_.uses_; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

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
  Answer release();
  void release_or_log();

  sk_comm* comm_;
  int uses_ = 0;
  int leases_ = 0;
  bool freed_ = false;
};

}  // namespace sk::python

#endif  // LIBSK_PYTHON_BINDINGS_H_
