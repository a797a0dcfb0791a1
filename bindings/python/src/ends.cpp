#include "ends.h"

#include <vector>

#include "tile_function.h"

namespace sk::python {
namespace {

// In the order in which they were refused: what is of a communicator, then that, then its context.
// Never destroyed, for that would be behind the interpreter's end.
std::vector<Ends::End>* const g_kept = new std::vector<Ends::End>;

}  // namespace

bool Ends::is_refused(sk_status status) {
  return status == SK_ERR_BUSY || (status == SK_ERR_TIMEOUT && TileFunction::inside() != nullptr);
}

void Ends::keep(End end) {
  g_kept->push_back(std::move(end));
  some_ = true;
}

// An end may come back here, by a function of the log's, or let another thread do so: whoever comes
// finds only what nobody else has.
void Ends::retry_all() {
  some_ = false;
  for (End& each : std::exchange(*g_kept, {})) (void)now_or_later(std::move(each));
}

}  // namespace sk::python
