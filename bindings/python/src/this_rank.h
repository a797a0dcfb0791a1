// The process's rank in a notebook, for whoever prints or is interrupted in it.
#ifndef LIBSK_PYTHON_THIS_RANK_H_
#define LIBSK_PYTHON_THIS_RANK_H_

#include <unistd.h>

#include <string>
#include <utility>

#include "errors.h"
#include "gil.h"
#include "sk/worker.h"

namespace sk::python {

// With the GIL held only.
struct Joined {
  sk_worker* worker = nullptr;
  pid_t pid = 0;                  // Children of fork() have no rank.
  int writing = 0;                // Threads that are in `worker` without the GIL.
  int descriptors[2] = {-1, -1};  // Where 1 and 2 lead, should a cell close those,
  int input = -1;                 // and 0.
};
inline Joined joined;

inline bool is_rank() { return joined.worker != nullptr && joined.pid == getpid(); }

// Calls into libsk that may wait for room, so without the GIL; not collective, so nothing to abort.
// A forked child would speak in its parent's name, and over the parent's link.
template <typename Call>
void out(Call&& call) {
  if (joined.worker != nullptr && joined.pid != getpid())
    check(SK_ERR_FORKED, "this process was forked by a cell; it is no rank");
  sk_status status;
  std::string sentence;
  {
    GilReleased released;
    status = std::forward<Call>(call)();
    sentence = status == SK_OK ? "" : sk_last_error();
  }
  check(status, sentence);
}

}  // namespace sk::python

#endif  // LIBSK_PYTHON_THIS_RANK_H_
