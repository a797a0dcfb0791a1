// Rules that need no replay: 0 (well formed), b (queues), d (regions), f (reach), g, h (counts).
#ifndef SK_LIB_PLAN_CHECK_STRUCTURE_H_
#define SK_LIB_PLAN_CHECK_STRUCTURE_H_

#include "lib/base/status.h"
#include "lib/plan/check/cast.h"
#include "lib/plan/plan.h"

namespace sk::check {

inline constexpr uint32_t kEdgeSignalsMax = 4096;

// Each relies on those before it.
Status check_op(const Plan& plan);  // op.cpp: the descriptor, and the operands it asks for.
// structure.cpp: tables, peers, entry, parameters.
Status check_parts(const Plan& plan, const Cast& cast);
Status check_signals(const Plan& plan);                    // signals.cpp
Status check_buffers(const Plan& plan);                    // memory.cpp
Status check_regions(const Plan& plan, const Cast& cast);  // memory.cpp

// All of them.
Status check_structure(const Plan& plan, const Cast& cast);

// Whether ids name the same memory: the same operand of a rank, or the same workspace bytes.
bool same_memory(const Buffer& a, const Buffer& b);

}  // namespace sk::check

#endif  // SK_LIB_PLAN_CHECK_STRUCTURE_H_
