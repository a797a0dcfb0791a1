// What a rank's I/O thread does to the collectives that its process is inside of.
//
// Communicators are nobody's in this room: whoever has them hands over this. None of it waits, and
// all of it may come from any thread.
#ifndef SK_LIB_CONTROL_HOST_COLLECTIVES_H_
#define SK_LIB_CONTROL_HOST_COLLECTIVES_H_

#include <string>
#include <vector>

#include "lib/base/status.h"
#include "transport/absence.h"

namespace sk::control {

class Collectives {
 public:
  virtual ~Collectives() = default;

  // The cell is interrupted: what is under way now is what interrupt() ends,
  virtual void mark() = 0;
  // a little later, where it still is: calls, and creations. What the cell does about the interrupt
  // meanwhile goes on.
  virtual void interrupt() = 0;
  // A rank is gone: what is being created over all ranks ends with `why`.
  virtual void lose_ranks(const Status& why) = 0;
  // These will not come to a call of the cell that runs; none: nothing is known of any.
  virtual void set_absent(std::vector<AbsentPeers> groups) = 0;
  // What the thread of the cells waits in, and for whom, as far as they have not entered it.
  struct Wait {
    std::string call;  // "": it waits in none.
    std::vector<uint32_t> lacking;
  };
  virtual Wait waiting() const = 0;
  // Asked where the thread of the cells is in no call: whether another one is, or has begun one
  // since this was last asked. Where `some_go_on`, also whether one ever has: they may be next.
  virtual bool used_beside_cells(bool some_go_on) = 0;
};

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_HOST_COLLECTIVES_H_
