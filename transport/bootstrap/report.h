// How each rank fared in a step that all take together, as they tell each other by an allgather.
#ifndef SK_TRANSPORT_BOOTSTRAP_REPORT_H_
#define SK_TRANSPORT_BOOTSTRAP_REPORT_H_

#include <cstdint>
#include <vector>

#include "lib/base/status.h"

namespace sk {

// Plain bytes.
struct Report {
  int32_t code = SK_OK;
  uint32_t secondary = 0;  // Failed only because another rank did.
  uint32_t flag = 0;       // Whatever the step makes of it.
  char message[244] = {};
};

Report report_of(const Status& status);

// The failure that all ranks return: the first that is not a mere consequence, as "STEP, rank R:
// sentence".
Status verdict(const std::vector<Report>& reports, const char* step);

}  // namespace sk

#endif  // SK_TRANSPORT_BOOTSTRAP_REPORT_H_
