// Who exchanges with whom when every pair of ranks is to, and no rank is in two pairs at a time.
#ifndef SK_TOOLS_SK_DOCTOR_ROUNDS_H_
#define SK_TOOLS_SK_DOCTOR_ROUNDS_H_

namespace sk::doctor {

// How many rounds there are: in each, every rank (but one, where they are odd) has a partner.
constexpr int round_count(int world_size) { return world_size - 1 + world_size % 2; }

// The partner of `rank` in `round`; -1: it has none. A tournament's circle: one place stays, the
// others go round it.
constexpr int partner_in(int round, int rank, int world_size) {
  const int places = world_size + world_size % 2, turning = places - 1;
  int partner = 0;
  if (rank == turning) {
    partner = round * (places / 2) % turning;
  } else {
    partner = ((round - rank) % turning + turning) % turning;
    if (partner == rank) partner = turning;
  }
  return partner < world_size ? partner : -1;
}

}  // namespace sk::doctor

#endif  // SK_TOOLS_SK_DOCTOR_ROUNDS_H_
