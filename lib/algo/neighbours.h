// The vocabulary of planners whose ranks pass chunks to a few neighbours by flows (flow.h): what
// each form of such a plan says of its flows, its parts are written with, too.
#ifndef SK_LIB_ALGO_NEIGHBOURS_H_
#define SK_LIB_ALGO_NEIGHBOURS_H_

#include <memory>
#include <optional>

#include "lib/algo/part.h"
#include "lib/plan/flow.h"

namespace sk::algo {

// At every rank an inbox for chunks of one neighbour.
struct Inbox {
  uint32_t first = 0;  // That of rank 0.
  uint32_t slots = 0;
  uint64_t slot_bytes = 0;
};
// With slots enough that two chunks are under way while one is taken.
Inbox add_inbox(Layout& layout, uint64_t chunk_bytes);
// Without chunks; lanes `lane` to `lane` + 2 * slots - 1 of both edges are its own.
Flow flow_into(const Inbox& inbox, uint32_t from, uint32_t to, uint32_t lane);
// Null where there is none.
const Flow* find_flow(const std::vector<Flow>& flows, uint32_t from, uint32_t to);

// The chunk's place in its inbox.
Region slot_of(const Flow& flow, uint32_t chunk, RegionAccess access);
// One row of bytes as the rows that they are in `dst`.
Region rows_like(const Region& dst, Region bytes);
Wait arrival_of(const Flow& flow, uint32_t chunk);
// That its slot has been freed by the chunk before it; none of the first ones.
std::optional<Wait> room_for(const Flow& flow, uint32_t chunk);
// That the slot is free again; none of the last ones.
std::optional<Post> credit_of(const Flow& flow, uint32_t chunk);

// The put of a chunk, which waits for room, and for `arrival` if that is given; `after_all` where a
// task before it makes what it reads.
void put_chunk(Part& part, const Flow& flow, uint32_t chunk, Region src, bool after_all,
               const Wait* arrival = nullptr);

// Lanes of the edges of a rank with these flows, and what `producer` posts to it in one of them.
uint32_t lanes_of(const std::vector<Flow>& flows);
uint32_t posts_of(const std::vector<Flow>& flows, uint32_t rank, uint32_t producer, uint32_t lane);

// Copies a chunk, row after row of where it belongs, once it has arrived, and gives its slot back.
void take_chunk(Part& part, const Flow& flow, uint32_t chunk, Region dst, bool after_all = false);
// The same of one that goes on as `out`'s chunk of that number. It is put from its slot before it
// is copied: along a chain of ranks the first byte does not wait for a copy at each of them.
void pass_chunk(Part& part, const Flow& in, const Flow& out, uint32_t chunk, Region dst);

// The same of one that goes on to several, or to none.
struct Onward {
  const Flow* flow;
  uint32_t chunk;
};
void hand_on_chunk(Part& part, const Flow& in, uint32_t chunk, std::span<const Onward> out,
                   Region dst);

// A part of one queue with these flows, behind its await.
Part begin_part(const Layout& layout, uint32_t rank, const std::vector<Flow>& flows);

// Of a form of plans that says how many chunks a rank passes on at most.
template <typename Form>
uint64_t chunks_by(const OpDesc& op, const Target& target) {
  return Form(op, target).chunk_count();
}

// Of a form of plans that says its flows(rank).
template <typename Form>
FlowsOf flows_by(const OpDesc& op, const Target& target) {
  const auto form = std::make_shared<const Form>(op, target);
  return [form](uint32_t rank) { return form->flows(rank); };
}

template <typename T>
std::span<const T> maybe(const std::optional<T>& one) {
  return one ? std::span(&*one, 1) : std::span<const T>();
}

}  // namespace sk::algo

#endif  // SK_LIB_ALGO_NEIGHBOURS_H_
