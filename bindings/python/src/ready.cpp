#include "ready.h"

#include "blocking.h"

namespace nb = nanobind;

namespace sk::python {

namespace {

class Inside {
 public:
  explicit Inside(bool& inside) : inside_(inside) { inside_ = true; }
  ~Inside() { inside_ = false; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  bool& inside_;
};

}  // namespace

Ready::Ready(CommHandle& comm, int32_t op, const void* args) : comm_(comm) {
  const CommHandle::Use use(comm, "prepare");
  wait(nullptr, [&] {
    sk_op* made = nullptr;
    const sk_status status = sk_op_create(comm.get(), op, args, &made);
    op_.reset(made);  // Here, for an interrupt may be raised behind it.
    return status;
  });
}

void Ready::run(int64_t timeout_ms) {
  if (op_ == nullptr) check(SK_ERR_BAD_HANDLE, "prepared.run(): it was closed");
  if (comm_.get() == nullptr) {
    check(SK_ERR_BAD_HANDLE, "prepared.run(): its communicator was freed");
  }
  const CommHandle::Collective use(comm_, "prepared.run");
  const sk_run_options options = options_of(0, timeout_ms);
  sk_op* const op = op_.get();
  const Inside inside(inside_);
  wait(&comm_, [&] { return sk_op_run(op, nullptr, timeout_ms != 0 ? &options : nullptr); });
}

// While a run is inside, which has let go of the interpreter's lock, the operation stays. Other
// calls of the communicator have nothing of it.
void Ready::close() {
  if (op_ == nullptr) return;
  if (inside_)
    check(SK_ERR_BUSY, "prepared.close(): another thread is inside prepared.run() of it");
  sk_op* const op = op_.release();
  const sk_status result = sk_op_free(op);
  if (result != SK_OK) op_.reset(op);  // Refused, it stays as it was.
  check(result);
}

void bind_ready(nb::module_& module) {
  nb::class_<Ready>(module, "Ready").def("run", &Ready::run).def("close", &Ready::close);
}

}  // namespace sk::python
