// The text form of plans: one line per buffer, signal, queue and task; stable, for eyes and diffs.
//
//   sk-plan 3
//   op kind=allreduce count=1000 op=sum in.dtype=f32 in.symmetric=1 ...
//   target world_size=2 mapped=1 workers=1 ...
//   buffer 0 kind=input access=mapped operand=0 generations=1 owner=0 bytes=4000 offset=0
//   rank 0 peers=1
//   signal r1.s0 posts=1
//   queue
//     enter
//     await
//     reduce dtype=f32 out_dtype=f32 redop=sum hint=default read=b0..b1@0:4000 ... post=r1.s0+1
//     nop wait=r1.s0>=1
//
// Behind the target's fields, where nothing packs B: `raw_b`, and where queues share out vectors
// otherwise than CPUs' do: `queue_bytes_min=8192 turn_bytes=32768`, and where ranks are of several
// hosts, the least rank of each one's host: `host_of=0,0,2,2`, with
// `one_level` behind it where plans look at none of that. On a line below, where
// the plan has one: `free dimension=1 block=16`. A task's flags stand behind its name: after_all,
// free_rows, free_blocks, posts_in_order. A region is BUFFERS@OFFSET:BYTES, or
// BUFFERS@OFFSET:ROWSxROW_BYTES/PITCH. Empty lines and lines that begin with # say nothing.
#ifndef SK_LIB_PLAN_TEXT_H_
#define SK_LIB_PLAN_TEXT_H_

#include <string>
#include <string_view>

#include "lib/plan/plan.h"

namespace sk {

// parse(dump(p)) == p for every plan whose side-table slices lie inside their tables.
std::string dump(const Plan& plan);

// Total: any bytes give a plan, or SK_ERR_INVALID_ARGUMENT with line and column. Memory stays in
// proportion to the text. What comes back is well formed, not necessarily valid: see validate.h.
Result<Plan> parse(std::string_view text);

// One task's line as dump() writes it, without indentation.
std::string dump_task(const RankPlan& part, const Task& task);

}  // namespace sk

#endif  // SK_LIB_PLAN_TEXT_H_
