// Rows whose ranks are processes: each is the test program once more, started by `sk run`.
#ifndef SK_TESTS_MULTI_PROCESS_ROWS_H_
#define SK_TESTS_MULTI_PROCESS_ROWS_H_

#include <string>

#include "tests/multi/op_case.h"

namespace sk::testing_ops {

// The row with each rank a process: what they printed, "" if all ended well.
std::string run_processes(const Row& row);

// What main() does first: the exit status where this process is a rank of run_processes(), else -1.
int rank_main();

}  // namespace sk::testing_ops

#endif  // SK_TESTS_MULTI_PROCESS_ROWS_H_
