#include "tests/support/plans.h"

#include <algorithm>

#include "lib/plan/builder.h"
#include "tests/support/op_words.h"

namespace sk::testing_support {
namespace {

std::vector<uint32_t> others(uint32_t rank, uint32_t ranks) {
  std::vector<uint32_t> peers;
  for (uint32_t peer = 0; peer < ranks; ++peer) {
    if (peer != rank) peers.push_back(peer);
  }
  return peers;
}

Plan allreduce_of(uint32_t ranks, int64_t count, DType dtype, RedOp redop, BufferAccess access) {
  Plan plan;
  TextOp op{.kind = OpKind::kAllreduce, .dtype = dtype, .redop = redop, .count = count};
  op.symmetric_in = op.symmetric_out = access == BufferAccess::kMapped;
  plan.op = op_desc(op);
  plan.target.world_size = ranks;
  const uint64_t bytes = uint64_t(count) * dtype_bytes(dtype);
  for (const BufferKind kind : {BufferKind::kInput, BufferKind::kOutput}) {
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      plan.buffers.push_back({.kind = kind,
                              .access = access,
                              .operand = uint8_t(kind == BufferKind::kOutput),
                              .owner = rank,
                              .bytes = bytes});
    }
  }
  return plan;
}

}  // namespace

Plan direct_allreduce(uint32_t ranks, int64_t count, DType dtype, RedOp redop) {
  Plan plan = allreduce_of(ranks, count, dtype, redop, BufferAccess::kMapped);
  const int64_t params[] = {int64_t(dtype), int64_t(dtype), int64_t(redop), kStoreDefault};
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    RankBuilder part(rank, 1);
    part.set_peers(others(rank, ranks));
    std::vector<Wait> waits;
    std::vector<Post> posts;
    for (uint32_t peer = 0; peer < ranks; ++peer) {  // Each tells each that it is done with it.
      if (peer == rank) continue;
      part.add_signal({peer, 0, 1});
      waits.push_back({peer, 0, 1});
      posts.push_back({peer, 0, 1});
    }
    const uint64_t element = dtype_bytes(dtype);
    const uint64_t begin = uint64_t(count) * rank / ranks * element;
    const uint64_t bytes = uint64_t(count) * (rank + 1) / ranks * element - begin;
    part.add({.op = TaskOp::kEnter});
    part.add({.op = TaskOp::kAwait});
    part.add(
        {.op = TaskOp::kReduce,
         .regions = {flat(0, begin, bytes, kRead, ranks), flat(ranks, begin, bytes, kWrite, ranks)},
         .params = params,
         .posts = posts});
    part.add({.waits = waits});
    plan.ranks.push_back(part.finish());
  }
  return plan;
}

Plan staged_allreduce(uint32_t ranks, int64_t count) {
  Plan plan = allreduce_of(ranks, count, DType::kF32, RedOp::kSum, BufferAccess::kLocal);
  const uint64_t bytes = uint64_t(count) * 4;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    plan.buffers.push_back(
        {.access = BufferAccess::kMapped, .generations = 2, .owner = rank, .bytes = bytes});
  }
  const int64_t copy[] = {kStoreDefault};
  const int64_t params[] = {SK_F32, SK_F32, SK_SUM, kStoreDefault};
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    RankBuilder part(rank, 1);
    part.set_peers(others(rank, ranks));
    part.add({.op = TaskOp::kCopy,
              .regions = {flat(rank, 0, bytes, kRead), flat(2 * ranks + rank, 0, bytes, kWrite)},
              .params = copy});
    part.add({.op = TaskOp::kEnter, .after_all = true});
    part.add({.op = TaskOp::kAwait});
    part.add(
        {.op = TaskOp::kReduce,
         .after_all = true,
         .regions = {flat(2 * ranks, 0, bytes, kRead, ranks), flat(ranks + rank, 0, bytes, kWrite)},
         .params = params});
    plan.ranks.push_back(part.finish());
  }
  return plan;
}

Plan signalled_allreduce(uint32_t ranks, int64_t count, uint32_t late) {
  constexpr uint64_t kLateBytes = 1 << 20;
  Plan plan = allreduce_of(ranks, count, DType::kF32, RedOp::kSum, BufferAccess::kLocal);
  const uint64_t bytes = uint64_t(count) * 4;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    plan.buffers.push_back(
        {.access = BufferAccess::kMapped, .generations = 2, .owner = rank, .bytes = bytes});
  }
  plan.buffers.push_back({.owner = ranks - 1, .bytes = 2 * kLateBytes});
  const int64_t copy[] = {kStoreDefault};
  const int64_t params[] = {SK_F32, SK_F32, SK_SUM, kStoreDefault};
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    RankBuilder part(rank, 1);
    part.set_peers(others(rank, ranks));
    std::vector<Wait> waits;
    std::vector<Post> posts;
    for (const uint32_t peer : others(rank, ranks)) {
      part.add_signal({peer, 0, 1});
      waits.push_back({peer, 0, 1});
      posts.push_back({peer, 0, 1});
    }
    part.add({.op = TaskOp::kEnter});
    part.add({.op = TaskOp::kAwait});  // Nobody reads what was staged two runs ago any more.
    for (uint32_t i = 0; rank + 1 == ranks && i < late; ++i) {
      part.add({.op = TaskOp::kCopy,
                .regions = {flat(3 * ranks, 0, kLateBytes, kRead),
                            flat(3 * ranks, kLateBytes, kLateBytes, kWrite)},
                .params = copy});
    }
    part.add({.op = TaskOp::kCopy,
              .regions = {flat(rank, 0, bytes, kRead), flat(2 * ranks + rank, 0, bytes, kWrite)},
              .params = copy,
              .posts = posts});
    part.add(
        {.op = TaskOp::kReduce,
         .after_all = true,
         .regions = {flat(2 * ranks, 0, bytes, kRead, ranks), flat(ranks + rank, 0, bytes, kWrite)},
         .params = params,
         .waits = waits});
    plan.ranks.push_back(part.finish());
  }
  return plan;
}

Plan idle_rank(int64_t count) {
  Plan plan = allreduce_of(2, count, DType::kF32, RedOp::kSum, BufferAccess::kLocal);
  const uint64_t bytes = uint64_t(count) * 4;
  const int64_t copy[] = {kStoreDefault};
  RankBuilder idle(0, 1), busy(1, 1);
  busy.add({.op = TaskOp::kCopy,
            .regions = {flat(1, 0, bytes, kRead), flat(3, 0, bytes, kWrite)},
            .params = copy});
  plan.ranks.push_back(idle.finish());
  plan.ranks.push_back(busy.finish());
  return plan;
}

Plan put_pipeline(int64_t chunk_count, uint32_t slots, uint64_t chunk_elements) {
  Plan plan;
  const uint64_t chunk_bytes = chunk_elements * 4;
  const int64_t count = chunk_count * int64_t(chunk_elements);
  plan.op = op_desc({.kind = OpKind::kSendRecv, .root = 0, .peer = 1, .count = count});
  plan.target = {.world_size = 2, .mapped = false, .chunk_bytes = chunk_bytes};
  const uint64_t bytes = uint64_t(chunk_count) * chunk_bytes;
  plan.buffers = {{.kind = BufferKind::kInput, .operand = 0, .owner = 0, .bytes = bytes},
                  {.kind = BufferKind::kOutput, .operand = 1, .owner = 1, .bytes = bytes},
                  {.access = BufferAccess::kPutOnly, .owner = 1, .bytes = slots * chunk_bytes}};
  RankBuilder source(0, 1), sink(1, 1);
  source.set_peers({1});
  sink.set_peers({0});
  const auto uses = [&](uint32_t slot) {  // How many chunks go through a slot.
    return uint32_t((chunk_count - slot + slots - 1) / slots);
  };
  for (uint32_t slot = 0; slot < slots; ++slot) {
    sink.add_signal({0, slot, uses(slot)});
    if (uses(slot) > 1) source.add_signal({1, slot, uses(slot) - 1});
  }
  for (RankBuilder* part : {&source, &sink}) {
    part->add({.op = TaskOp::kEnter});
    part->add({.op = TaskOp::kAwait});
  }
  const int64_t copy[] = {kStoreDefault};
  for (uint32_t chunk = 0; chunk < chunk_count; ++chunk) {
    const uint32_t slot = chunk % slots, turn = chunk / slots;
    const uint64_t at = chunk * chunk_bytes;
    const Wait credit{1, slot, turn}, data{0, slot, turn + 1};
    const Post arrived{1, slot, 1}, consumed{0, slot, 1};
    source.add({.op = TaskOp::kPut,
                .regions = {flat(0, at, chunk_bytes, kRead),
                            flat(2, slot * chunk_bytes, chunk_bytes, kWrite)},
                .waits = turn > 0 ? std::span(&credit, 1) : std::span<const Wait>(),
                .posts = std::span(&arrived, 1)});
    const bool last = turn + 1 == uses(slot);
    sink.add({.op = TaskOp::kCopy,
              .regions = {flat(2, slot * chunk_bytes, chunk_bytes, kRead),
                          flat(1, at, chunk_bytes, kWrite)},
              .params = copy,
              .waits = std::span(&data, 1),
              .posts = last ? std::span<const Post>() : std::span(&consumed, 1)});
  }
  plan.ranks.push_back(source.finish());
  plan.ranks.push_back(sink.finish());
  return plan;
}

Plan counted_pieces(uint32_t pieces, uint64_t piece_elements) {
  Plan plan;
  const uint64_t piece = piece_elements * 4, bytes = pieces * piece;
  plan.op = op_desc(
      {.kind = OpKind::kSendRecv, .root = 0, .peer = 1, .count = int64_t(pieces * piece_elements)});
  plan.target = {.world_size = 2};
  plan.buffers = {{.kind = BufferKind::kInput, .operand = 0, .owner = 0, .bytes = bytes},
                  {.kind = BufferKind::kOutput, .operand = 1, .owner = 1, .bytes = bytes},
                  {.access = BufferAccess::kMapped, .owner = 0, .bytes = bytes}};
  RankBuilder source(0, 1), sink(1, 1);
  source.set_peers({1});
  sink.set_peers({0});
  source.add_signal({1, 0, 1});
  sink.add_signal({0, 0, pieces});
  for (RankBuilder* part : {&source, &sink}) {
    part->add({.op = TaskOp::kEnter});
    part->add({.op = TaskOp::kAwait});
  }
  const int64_t copy[] = {kStoreDefault};
  const Post made{1, 0, 1}, taken{0, 0, 1};
  for (uint32_t i = 0; i < pieces; ++i) {
    const Wait arrival{0, 0, i + 1};
    const bool last = i + 1 == pieces;
    source.add({.op = TaskOp::kCopy,
                .posts_in_order = true,
                .regions = {flat(0, i * piece, piece, kRead), flat(2, i * piece, piece, kWrite)},
                .params = copy,
                .posts = {&made, 1}});
    sink.add({.op = TaskOp::kCopy,
              .posts_in_order = last,
              .regions = {flat(2, i * piece, piece, kRead), flat(1, i * piece, piece, kWrite)},
              .params = copy,
              .waits = {&arrival, 1},
              .posts = {&taken, last ? 1u : 0u}});
  }
  const Wait all_taken{1, 0, 1};
  source.add({.waits = {&all_taken, 1}});
  plan.ranks.push_back(source.finish());
  plan.ranks.push_back(sink.finish());
  return plan;
}

}  // namespace sk::testing_support
