// The fields of the text form's header lines, in their order: dump() and parse() both walk these.
#ifndef SK_LIB_PLAN_TEXT_FIELDS_H_
#define SK_LIB_PLAN_TEXT_FIELDS_H_

#include <string_view>

#include "lib/plan/plan.h"

namespace sk::text {

inline constexpr std::string_view kMagic = "sk-plan 3";
inline constexpr uint32_t kEnumMax = 16;  // Every enum of the header is smaller.

inline std::string_view value_name(DType dtype) {
  return is_dtype(int32_t(dtype)) ? dtype_name(dtype) : "";
}
inline std::string_view value_name(RedOp op) { return is_redop(int32_t(op)) ? redop_name(op) : ""; }
inline std::string_view value_name(BufferKind kind) {
  constexpr std::string_view kNames[] = {"input", "output", "inout", "workspace"};
  return size_t(kind) < std::size(kNames) ? kNames[size_t(kind)] : "";
}
inline std::string_view value_name(BufferAccess access) {
  constexpr std::string_view kNames[] = {"local", "mapped", "put"};
  return size_t(access) < std::size(kNames) ? kNames[size_t(access)] : "";
}

// Stands behind a target's fields where it is so.
inline constexpr std::string_view kRawB = "raw_b";
// Last, where ranks are of several hosts: for each its host's least, with commas.
inline constexpr std::string_view kHostOf = "host_of=";
// Behind that, where it is so.
inline constexpr std::string_view kOneLevel = "one_level";

template <typename T, typename Visitor>
void visit_target(T& target, Visitor&& field) {
  field("world_size", target.world_size);
  field("mapped", target.mapped);
  field("workers", target.workers);
  field("cores", target.cores);
  field("tile_m", target.tile_m);
  field("tile_n", target.tile_n);
  field("packed_bytes", target.packed_bytes);
  field("chunk_bytes", target.chunk_bytes);
  field("slot_count", target.slot_count);
  field("one_shot_bytes", target.one_shot_bytes);
  field("one_shot_symmetric_bytes", target.one_shot_symmetric_bytes);
  field("stream_bytes", target.stream_bytes);
  field("put_bytes_max", target.put_bytes_max);
  field("band_rows", target.band_rows);
  field("packed_pitch", target.packed_pitch);
  field("edge_signals_max", target.edge_signals_max);
}

// Behind those, where they are not what they are by default: texts that know nothing of them say so
// of plans that have nothing of them.
template <typename T, typename Visitor>
void visit_shares(T& target, Visitor&& field) {
  field("queue_bytes_min", target.queue_bytes_min);
  field("turn_bytes", target.turn_bytes);
}
inline bool has_shares(const Target& target) {
  return target.queue_bytes_min != Target().queue_bytes_min ||
         target.turn_bytes != Target().turn_bytes;
}

template <typename F, typename Visitor>
void visit_free(F& free, Visitor&& field) {
  field("dimension", free.number);
  field("block", free.block);
}

struct FlagWord {
  uint8_t flag;
  std::string_view word;
};
inline constexpr FlagWord kFlagWords[] = {{kAfterAll, "after_all"},
                                          {kFreeRows, "free_rows"},
                                          {kFreeBlocks, "free_blocks"},
                                          {kPostsInOrder, "posts_in_order"}};

template <typename B, typename Visitor>
void visit_buffer(B& buffer, Visitor&& field) {
  field("kind", buffer.kind);
  field("access", buffer.access);
  field("operand", buffer.operand);
  field("generations", buffer.generations);
  field("owner", buffer.owner);
  field("bytes", buffer.bytes);
  field("offset", buffer.offset);
}

}  // namespace sk::text

#endif  // SK_LIB_PLAN_TEXT_FIELDS_H_
