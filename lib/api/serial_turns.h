// Turns at users' tiles that are serial: calls of one that come on several lanes come one after
// another, each of them with its workers.
#ifndef SK_LIB_API_SERIAL_TURNS_H_
#define SK_LIB_API_SERIAL_TURNS_H_

#include <cstdint>
#include <utility>

#include "lib/api/turns.h"
#include "lib/base/status.h"
#include "lib/tile/user_tile.h"

namespace sk::api {

// The turn at one tile, on the thread that has taken it; of nothing where the tile is not serial.
//
// It is taken for a whole call, on its thread, which holds the call's lane, and not by the workers
// where they call the function: a wait there would ask nobody, and one that is inside of the
// function would be waited for by its own call's workers.
class SerialTurn {
 public:
  // The tile stays as long as this does. `usual_ns`: how long it is waited for where `turn` does
  // not say. SK_ERR_BUSY at once where this thread has it, or is inside a tile and would wait: what
  // it waits for may wait for that.
  static Result<SerialTurn> take(const UserTile& tile, const Turn& turn, int64_t usual_ns);

  SerialTurn(SerialTurn&& other) noexcept : index_(std::exchange(other.index_, kNone)) {}
  SerialTurn& operator=(SerialTurn&&) = delete;
  ~SerialTurn();

  // In a forked child: its parent's calls have no turn.
  static void forget_all();

 private:
  static constexpr size_t kNone = SIZE_MAX;
  explicit SerialTurn(size_t index) : index_(index) {}

  size_t index_;
};

}  // namespace sk::api

#endif  // SK_LIB_API_SERIAL_TURNS_H_
