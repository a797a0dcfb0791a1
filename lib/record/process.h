// The flight record of this process: made when its first communicator of several ranks is, removed
// with the last unless one of them failed, and when the process ends with exit status 0.
#ifndef SK_LIB_RECORD_PROCESS_H_
#define SK_LIB_RECORD_PROCESS_H_

#include "lib/base/status.h"
#include "lib/record/folder.h"
#include "lib/record/layout.h"

namespace sk::record {

// An area that nobody else has; its stage is kMeeting, and all else of it as when it was new. An
// error says why nothing will be recorded, which is no reason for a call to fail. `tidies`: one of
// a job's ranks looks after what others have left.
Result<Area*> take_area(const Settings& settings, const EnvLookup& env, bool tidies);

// Gives it back; what it says can be read until another takes it.
void give_back(Area* area);

}  // namespace sk::record

#endif  // SK_LIB_RECORD_PROCESS_H_
