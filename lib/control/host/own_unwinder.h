// Callers of the calling function, as backtrace() finds them, for a signal's handler.
//
// backtrace() asks the libgcc_s of the whole process. Where a compiler at run time has told that of
// its frames (Julia, numba), it takes a lock and allocates: a thread that the signal has met within
// malloc(), or while it told of frames, waits for itself for good. This is a copy of the same
// unwinder which nobody tells anything, so that it does neither. Frames of code made at run time
// end what it finds.
#ifndef SK_LIB_CONTROL_HOST_OWN_UNWINDER_H_
#define SK_LIB_CONTROL_HOST_OWN_UNWINDER_H_

#include <span>

namespace sk::control {

// How many were found; innermost first, the calling function itself in front. Async-signal-safe
// once it was called outside of a handler.
int callers(std::span<void*> frames);

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_HOST_OWN_UNWINDER_H_
