// A status of libsk as a Python exception.
#ifndef LIBSK_PYTHON_ERRORS_H_
#define LIBSK_PYTHON_ERRORS_H_

#include <string>

#include "sk/base.h"

namespace sk::python {

// Raises what libsk._errors makes of the status and this thread's last sentence; SK_OK returns.
// The GIL is held.
void check(sk_status status);

// The same with a sentence of another thread.
void check(sk_status status, const std::string& sentence);

// Clears the exception of a look at somebody's object, for the caller goes another way. One that
// says nothing of that object goes on instead: what a handler of a signal raised, which Python runs
// wherever such a look runs its code, Ctrl-C, or the interpreter's end.
void drop_error();

}  // namespace sk::python

#endif  // LIBSK_PYTHON_ERRORS_H_
