// A communicator of the device that its configuration names.
#ifndef SK_LIB_COMM_MAKE_COMMUNICATOR_H_
#define SK_LIB_COMM_MAKE_COMMUNICATOR_H_

#include <memory>

#include "lib/comm/communicator.h"

namespace sk {

// The log hears for whom is waited meanwhile, and why none came about.
Result<std::unique_ptr<Communicator>> make_communicator(Communicator::Config config,
                                                        const Backend& backend);

}  // namespace sk

#endif  // SK_LIB_COMM_MAKE_COMMUNICATOR_H_
