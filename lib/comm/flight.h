// What a communicator tells of itself in the flight record (lib/record).
#ifndef SK_LIB_COMM_FLIGHT_H_
#define SK_LIB_COMM_FLIGHT_H_

#include "lib/comm/communicator.h"
#include "lib/record/comm_record.h"

namespace sk {

// Before its ranks look for each other, so that it can be seen who of them is there. Of a world of
// one nothing is recorded: nobody waits there. An error: the environment asks for what cannot be.
Result<record::CommRecord> begin_record(const Communicator::Config& config);

// Where calls of `op` are recorded, and what each moves: the operands of this rank in `plan`, in
// and out, once where they are in place. Without memory they count among the others.
Program::Recorded find_line(record::CommRecord& record, const OpDesc& op, const Plan& plan,
                            uint32_t rank);

}  // namespace sk

#endif  // SK_LIB_COMM_FLIGHT_H_
