#include "lib/algo/neighbours.h"

#include <algorithm>
#include <array>

namespace sk::algo {
namespace {

constexpr uint32_t kSlotsMin = 3, kSlotsMax = 8;

}  // namespace

Inbox add_inbox(Layout& layout, uint64_t chunk_bytes) {
  const uint32_t slots = std::clamp(layout.target().slot_count, kSlotsMin, kSlotsMax);
  const uint64_t slot_bytes = align_up(chunk_bytes, kWorkspaceAlign);
  return {layout.add_workspace(BufferAccess::kPutOnly, slots * slot_bytes), slots, slot_bytes};
}

Flow flow_into(const Inbox& inbox, uint32_t from, uint32_t to, uint32_t lane) {
  return {.from = from,
          .to = to,
          .inbox = inbox.first + to,
          .slots = inbox.slots,
          .slot_bytes = inbox.slot_bytes,
          .data = lane,
          .credit = lane + inbox.slots,
          .chunks = {}};
}

const Flow* find_flow(const std::vector<Flow>& flows, uint32_t from, uint32_t to) {
  for (const Flow& flow : flows) {
    if (flow.from == from && flow.to == to) return &flow;
  }
  return nullptr;
}

Region slot_of(const Flow& flow, uint32_t chunk, RegionAccess access) {
  return flat(flow.inbox, flow.offset(chunk), flow.chunks[chunk].bytes, access);
}

Region rows_like(const Region& dst, Region bytes) {
  bytes.row_bytes = bytes.pitch = dst.row_bytes;
  bytes.rows = dst.rows;
  return bytes;
}

Wait arrival_of(const Flow& flow, uint32_t chunk) {
  return {flow.from, flow.data + chunk % flow.slots, chunk / flow.slots + 1};
}

std::optional<Wait> room_for(const Flow& flow, uint32_t chunk) {
  if (chunk < flow.slots) return std::nullopt;
  return Wait{flow.to, flow.credit + chunk % flow.slots, chunk / flow.slots};
}

std::optional<Post> credit_of(const Flow& flow, uint32_t chunk) {
  if (!flow.has_credit(chunk)) return std::nullopt;
  return Post{flow.from, flow.credit + chunk % flow.slots, 1};
}

void put_chunk(Part& part, const Flow& flow, uint32_t chunk, Region src, bool after_all,
               const Wait* arrival) {
  std::array<Wait, 2> waits;
  size_t count = 0;
  if (arrival != nullptr) waits[count++] = *arrival;
  if (const std::optional<Wait> room = room_for(flow, chunk)) waits[count++] = *room;
  part.put(src, slot_of(flow, chunk, kWrite), {flow.to, flow.data + chunk % flow.slots, 1},
           after_all, {waits.data(), count});
}

void take_chunk(Part& part, const Flow& flow, uint32_t chunk, Region dst, bool after_all) {
  const Wait arrival = arrival_of(flow, chunk);
  const std::optional<Post> credit = credit_of(flow, chunk);
  part.copy(0, rows_like(dst, slot_of(flow, chunk, kRead)), dst, after_all, {&arrival, 1},
            maybe(credit), kTakeInputs);
}

void pass_chunk(Part& part, const Flow& in, const Flow& out, uint32_t chunk, Region dst) {
  const Onward onward{&out, chunk};
  hand_on_chunk(part, in, chunk, {&onward, 1}, dst);
}

void hand_on_chunk(Part& part, const Flow& in, uint32_t chunk, std::span<const Onward> out,
                   Region dst) {
  const Wait arrival = arrival_of(in, chunk);
  for (const Onward& onward : out) {
    put_chunk(part, *onward.flow, onward.chunk, slot_of(in, chunk, kRead), false,
              &onward == &out.front() ? &arrival : nullptr);
  }
  take_chunk(part, in, chunk, dst, /*after_all=*/!out.empty());
}

Part begin_part(const Layout& layout, uint32_t rank, const std::vector<Flow>& flows) {
  Part part(layout, rank, /*queues=*/1, lanes_of(flows), [&](uint32_t producer, uint32_t lane) {
    return posts_of(flows, rank, producer, lane);
  });
  part.enter(false);
  part.await(0);
  return part;
}

uint32_t lanes_of(const std::vector<Flow>& flows) {
  uint32_t lanes = 0;
  for (const Flow& flow : flows) {
    lanes = std::max(lanes, std::max(flow.data, flow.credit) + flow.slots);
  }
  return lanes;
}

uint32_t posts_of(const std::vector<Flow>& flows, uint32_t rank, uint32_t producer, uint32_t lane) {
  for (const Flow& flow : flows) {
    if (flow.from == producer && flow.to == rank && lane - flow.data < flow.slots) {
      return flow.uses(lane - flow.data);
    }
    if (flow.to == producer && flow.from == rank && lane - flow.credit < flow.slots) {
      return std::max(1u, flow.uses(lane - flow.credit)) - 1;
    }
  }
  return 0;
}

}  // namespace sk::algo
