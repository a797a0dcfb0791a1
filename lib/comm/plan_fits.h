// Whether a plan that somebody brings was made for a world such as the one it is to run in.
#ifndef SK_LIB_COMM_PLAN_FITS_H_
#define SK_LIB_COMM_PLAN_FITS_H_

#include "lib/plan/plan.h"

namespace sk {

// `plan` is valid by its own target. `here`: what plans of its op are made for. What only steers a
// planner's choice may differ: sizes of chunks and tiles, limits from which another form is taken.
Status check_fits(const Plan& plan, const Target& here);

}  // namespace sk

#endif  // SK_LIB_COMM_PLAN_FITS_H_
