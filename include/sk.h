/* libsk: one kernel, any number of ranks. This header includes the whole C ABI. */
#ifndef SK_H_
#define SK_H_

#include "sk/base.h"
#include "sk/call.h"
#include "sk/comm.h"
#include "sk/exec.h"
#include "sk/op.h"
#include "sk/ops.h"
#include "sk/output.h"
#include "sk/session.h"
#include "sk/talk.h"
#include "sk/tile.h"
#include "sk/topo.h"
#include "sk/trace.h"
#include "sk/worker.h"

#endif /* SK_H_ */
