// A case through sk_call(), where the frozen functions would do.
#ifndef SK_TESTS_MULTI_CALL_BY_NUMBER_H_
#define SK_TESTS_MULTI_CALL_BY_NUMBER_H_

#include "tests/multi/oracle.h"

namespace sk::testing_ops {

// Memory of a case as the functions of sk/op.h take it.
struct CaseMemory {
  void *in = nullptr, *weights = nullptr, *out = nullptr;
};

// Of send_recv, ranks that are neither end call nothing.
sk_status call_by_number(sk_comm* comm, int rank, int ranks, const Case& c,
                         const CaseMemory& memory, const sk_run_options* options);

// A matrix with its rows one after another, where the options say.
sk_tensor rows_of(const sk_run_options* options, void* data, int32_t dtype, int64_t rows,
                  int64_t cols);

}  // namespace sk::testing_ops

#endif  // SK_TESTS_MULTI_CALL_BY_NUMBER_H_
