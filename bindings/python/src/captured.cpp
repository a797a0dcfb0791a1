#include "captured.h"

#include <fcntl.h>
#include <nanobind/stl/vector.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>
#include <vector>

#include "this_rank.h"

namespace nb = nanobind;

namespace sk::python {
namespace {

PyObject* g_file_write = nullptr;  // io.FileIO.write, from import on.

// Descriptors 1 and 2 that a cell has closed. True: one was.
bool reopen_descriptors() {
  bool reopened = false;
  for (int which = 0; is_rank() && which < 2; ++which) {
    if (fcntl(1 + which, F_GETFD) != -1 || errno != EBADF) continue;
    reopened = dup2(joined.descriptors[which], 1 + which) >= 0 || reopened;
  }
  return reopened;
}

bool same_file(int one, int other) {
  struct stat a = {}, b = {};
  return fstat(one, &a) == 0 && fstat(other, &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

// After a cell 1 and 2 lead to the notebook again, whatever it has made of them, by dup2() say: the
// next one is not to print in vain. Which led elsewhere, for somebody to say so; `flush` hands on
// what was written for that place. 0 is not left closed: the next descriptor that anybody opens
// would be taken for it, by children and by calls of C for which it is none.
std::vector<int> restore_descriptors(const nb::callable& flush) {
  std::vector<int> moved;
  if (!is_rank()) return moved;
  reopen_descriptors();
  if (fcntl(0, F_GETFD) == -1 && errno == EBADF && joined.input >= 0) dup2(joined.input, 0);
  for (int which = 0; which < 2; ++which)
    if (!same_file(1 + which, joined.descriptors[which])) moved.push_back(1 + which);
  if (moved.empty()) return moved;
  flush();
  fflush(nullptr);
  std::vector<int> restored;
  for (const int fd : moved)
    if (dup2(joined.descriptors[fd - 1], fd) >= 0) restored.push_back(fd);
  return restored;
}

// `file.write(data)` of one of two raw files on the captured descriptors. Each has a pipe of its
// own: what went to the other one is sent before, or nobody could tell which came first.
// Native, so that no signal's handler runs, and raises, between the write and its return: the
// buffer above would write the same bytes again.
nb::object write_in_order(nb::handle file, nb::handle data) {
  static PyObject* last = nullptr;
  if (std::exchange(last, file.ptr()) != file.ptr() && is_rank()) {
    sk_worker* const worker = joined.worker;
    ++joined.writing;
    {
      GilReleased released;
      // If there is no room, or no controller, it is written all the same, and order is all it
      // loses.
      (void)!sk_worker_stream(worker, SK_STREAM_STDOUT, nullptr, 0);
    }
    --joined.writing;
  }
  PyObject* written = PyObject_CallFunctionObjArgs(g_file_write, file.ptr(), data.ptr(), nullptr);
  if (written == nullptr) {
    nb::python_error failure;
    if (!reopen_descriptors()) throw failure;
    written = PyObject_CallFunctionObjArgs(g_file_write, file.ptr(), data.ptr(), nullptr);
    if (written == nullptr) throw nb::python_error();
  }
  return nb::steal(written);
}

}  // namespace

void keep_descriptors() {
  for (int which = 0; which < 2; ++which)
    joined.descriptors[which] = fcntl(1 + which, F_DUPFD_CLOEXEC, 3);
  joined.input = fcntl(0, F_DUPFD_CLOEXEC, 3);
}

void bind_captured(nb::module_& module) {
  g_file_write =
      nb::object(nb::module_::import_("io").attr("FileIO").attr("write")).release().ptr();
  module.def("write_in_order", &write_in_order);
  module.def("restore_descriptors", &restore_descriptors);
}

}  // namespace sk::python
