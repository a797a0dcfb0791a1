// How each rank fared in a step that all take together, as they tell each other by an allgather.
#ifndef SK_TRANSPORT_BOOTSTRAP_REPORT_H_
#define SK_TRANSPORT_BOOTSTRAP_REPORT_H_

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "lib/base/status.h"
#include "transport/bootstrap/bootstrap.h"

namespace sk {

// Plain bytes.
struct Report {
  int32_t code = SK_OK;
  uint32_t secondary = 0;  // Failed only because another rank did.
  uint32_t flag = 0;       // Whatever the step makes of it.
  char message[244] = {};
};

Report report_of(const Status& status);

// A T of every rank, plain bytes, in rank order.
template <typename T>
Result<std::vector<T>> gather_each(Bootstrap& bootstrap, const T& mine, int64_t timeout_ns) {
  SK_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes,
                      bootstrap.allgather(std::as_bytes(std::span(&mine, 1)), timeout_ns));
  std::vector<T> all(size_t(bootstrap.world_size()));
  if (bytes.size() != all.size() * sizeof(T)) {
    return error(SK_ERR_INTERNAL, "the bootstrap gathered {} bytes; {} were due", bytes.size(),
                 all.size() * sizeof(T));
  }
  std::memcpy(static_cast<void*>(all.data()), bytes.data(), bytes.size());
  return all;
}

// The failure that all ranks return: the first that is not a mere consequence, as "STEP, rank R:
// sentence", where ranks are counted as the launcher does.
Status verdict(const Bootstrap& bootstrap, const std::vector<Report>& reports, const char* step);

}  // namespace sk

#endif  // SK_TRANSPORT_BOOTSTRAP_REPORT_H_
