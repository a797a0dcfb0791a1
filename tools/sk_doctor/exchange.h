// Two ranks send each other random bytes, and compare what came.
#ifndef SK_TOOLS_SK_DOCTOR_EXCHANGE_H_
#define SK_TOOLS_SK_DOCTOR_EXCHANGE_H_

#include <cstdint>
#include <string>

#include "tools/sk_doctor/connections.h"
#include "tools/sk_doctor/library.h"

namespace sk::doctor {

inline constexpr int64_t kExchangeBytes = 1 << 20;

struct Exchanged {
  bool tried = false;
  int32_t code = SK_OK;     // SK_ERR_INTERNAL: other bytes came.
  std::string failure;      // The sentence; "": all bytes came as they were sent.
  bool small_came = false;  // A message of 8 bytes had crossed both ways.
  double round_trip_us = 0;
  double bytes_per_s = 0;   // One way, while the other is silent.
  Connections connections;  // Of this rank, made for this pair alone.
};

Json to_json(const Exchanged& exchanged);
Exchanged exchanged_from(const Json& json);

// `peer` and `rank` are numbers in `comm`; `seed` is the same for both, and of this pair alone.
// `brief`: as little as tells that bytes come; there are many pairs.
Exchanged exchange(const Library& library, sk_comm* comm, int rank, int peer, uint64_t seed,
                   bool brief);

}  // namespace sk::doctor

#endif  // SK_TOOLS_SK_DOCTOR_EXCHANGE_H_
