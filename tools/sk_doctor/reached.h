// Who reaches whom: the pairs of ranks, each seen from both sides.
#ifndef SK_TOOLS_SK_DOCTOR_REACHED_H_
#define SK_TOOLS_SK_DOCTOR_REACHED_H_

#include <string>
#include <vector>

#include "tools/sk_doctor/exchange.h"
#include "tools/sk_doctor/meeting.h"

namespace sk::doctor {

inline constexpr int kMatrixRanksMax = 16;  // More: the pairs alone that do not.

Json to_json(const Meeting::Row& row);
Meeting::Row row_from(const Json& json);

struct PairSeen {
  int a = 0, b = 0;
  bool tried = false;
  // Of a's side, else of b's; of one that only lost the other, last. "": all bytes came both ways.
  std::string failure;
  int32_t code = SK_OK;  // Of that side.
  bool small_came = false;
  double round_trip_us = 0, bytes_per_s = 0;
  std::pair<std::string, std::string> addresses;  // a's and b's; "": shared memory, or not known.
};

// Of those that reached each other; null: none did.
const PairSeen* slowest(const std::vector<PairSeen>& pairs);

// All pairs by rank order.
std::vector<PairSeen> pairs_of(const std::vector<Meeting::Row>& rows);

// Rows and columns are ranks: "ok", "FAIL", "?" (not tried).
std::string matrix_text(const std::vector<PairSeen>& pairs, int world_size);

// "least 5.1, median 6.0, most 9.2 us; 1 MiB at 1.2 to 3.4 GB/s"
std::string speeds_text(const std::vector<PairSeen>& pairs);

Json to_json(const PairSeen& pair, const std::vector<std::string>& hosts);

}  // namespace sk::doctor

#endif  // SK_TOOLS_SK_DOCTOR_REACHED_H_
