// Broadcast and send/recv: one source rank. Broadcast is direct (the root fills its own output,
// peers pull from it), one-shot through the root's staging, or a pipe of puts;
// send/recv is a pipe between two ranks, which alone take part.
#include "lib/algo/ops.h"
#include "lib/algo/pipe.h"
#include "lib/algo/shares.h"
#include "lib/algo/two_level.h"

namespace sk::algo {
namespace {

class FromOne {
 public:
  FromOne(const OpDesc& op, const Target& target)
      : layout_(op, target), bytes_(uint64_t(layout_.call().count) * layout_.element_bytes()) {}

  Result<Plan> broadcast(Ranks ranks) {
    const Target& target = layout_.target();
    if (layout_.one_shot(bytes_, layout_.call().symmetric_out)) return one_shot(ranks);
    if (target.mapped && layout_.call().symmetric_out) return direct(ranks);
    return stream(ranks, [](uint32_t) { return true; });
  }

  Result<Plan> send_recv(Ranks ranks) {
    const VectorCall& op = layout_.call();
    return stream(
        ranks, [&](uint32_t rank) { return int32_t(rank) == op.root || int32_t(rank) == op.peer; });
  }

 private:
  bool is_root(uint32_t rank) const { return int32_t(rank) == layout_.call().root; }
  bool receives(uint32_t rank) const {
    return layout_.op().kind() == OpKind::kBroadcast || int32_t(rank) == layout_.call().peer;
  }

  // The input is read on the root only; its output is the input itself where in place.
  void add_operands(BufferAccess out_access) {
    const VectorCall& op = layout_.call();
    if (op.in_place) {
      in_ = out_ = layout_.add_operand(BufferKind::kInOut, out_access, 1, bytes_);
      return;
    }
    in_ = layout_.add_operand(BufferKind::kInput, BufferAccess::kLocal, 0, bytes_);
    out_ = layout_.add_operand(BufferKind::kOutput, out_access, 1, bytes_);
  }
  StoreHintParam hint() const {
    return bytes_ >= layout_.target().stream_bytes ? kStoreNonTemporal : kStoreDefault;
  }
  Region in(uint32_t rank) const { return flat(in_ + rank, 0, bytes_, kRead); }
  Region out(uint32_t rank, RegionAccess access) const {
    return flat(out_ + rank, 0, bytes_, access);
  }

  // Peers pull from the root's output, piece by piece: its input is nobody else's to read.
  Plan direct(Ranks ranks) {
    add_operands(layout_.operand_access(true));
    const uint32_t root = uint32_t(layout_.call().root);
    const bool in_place = layout_.call().in_place;
    const Shares shares(layout_, uint64_t(layout_.call().count), 1, /*lanes=*/2);
    const uint32_t queues = shares.queues();
    std::vector<RankPlan> parts;
    for (const uint32_t rank : ranks) {
      // Lane q: pieces of its own output that the root's queue q has filled. Behind those lanes:
      // queue q of the producer has read them all.
      Part part(layout_, rank, queues, 2 * queues, [&](uint32_t producer, uint32_t lane) {
        if (!shares.has(0, lane % queues) || producer == rank) return 0u;
        if (lane < queues)
          return is_root(producer) && !in_place ? uint32_t(shares.pieces(0, lane).size()) : 0u;
        return is_root(rank) ? 1u : 0u;
      });
      part.enter(false);
      for (uint32_t queue = 0; queue < queues; ++queue) {
        part.await(queue);
        if (is_root(rank) && in_place) continue;
        const std::vector<Share> pieces = shares.pieces(0, queue);
        for (size_t i = 0; i < pieces.size(); ++i) {
          const Region out = shares.region(pieces[i], out_ + rank, 0, kWrite);
          if (is_root(rank)) {
            part.copy(queue, shares.region(pieces[i], in_ + rank, 0, kRead), out, false, {},
                      part.to_all_peers(queue), kStoreDefault, /*posts_in_order=*/i > 0);
            continue;
          }
          const bool is_last = i + 1 == pieces.size();
          const Wait filled = part.from(root, queue, uint32_t(i + 1));
          const Post done = part.to(root, queues + queue);
          part.copy(queue, shares.region(pieces[i], out_ + root, 0, kRead), out, false,
                    in_place ? std::span<const Wait>() : std::span(&filled, 1),
                    is_last ? std::span(&done, 1) : std::span<const Post>(), hint(),
                    /*posts_in_order=*/i > 0);
        }
      }
      parts.push_back(part.finish());
    }
    return layout_.finish(std::move(parts));
  }

  Plan one_shot(Ranks ranks) {
    add_operands(BufferAccess::kLocal);
    const uint32_t root = uint32_t(layout_.call().root);
    const uint32_t staging = layout_.add_workspace(BufferAccess::kMapped, bytes_, 2);
    std::vector<RankPlan> parts;
    for (const uint32_t rank : ranks) {
      Part part(layout_, rank, 1, 0, [](uint32_t, uint32_t) { return 0u; });
      if (is_root(rank))
        part.copy(0, in(rank), flat(staging + root, 0, bytes_, kWrite), false, {}, {}, kHandOver);
      part.enter(/*after_all=*/is_root(rank));
      part.await(0);
      if (!is_root(rank)) {
        part.copy(0, flat(staging + root, 0, bytes_, kRead), out(rank, kWrite));
      } else if (!layout_.call().in_place) {
        part.copy(0, in(rank), out(rank, kWrite));
      }
      parts.push_back(part.finish());
    }
    return layout_.finish(std::move(parts));
  }

  template <typename TakesPart>
  Plan stream(Ranks ranks, TakesPart takes_part) {
    const bool direct_puts =
        layout_.call().symmetric_out && layout_.op().kind() == OpKind::kBroadcast;
    add_operands(layout_.operand_access(direct_puts));
    const uint64_t es = layout_.element_bytes();
    const Pipe pipe(
        layout_,
        {.block =
             [&](uint32_t s) {
               return is_root(s) ? Slice{0, uint64_t(layout_.call().count)} : Slice{};
             },
         .flows = [&](uint32_t s, uint32_t r) { return s != r && is_root(s) && receives(r); },
         .from = [&](uint32_t s, uint32_t,
                     Slice p) { return flat(in_ + s, p.begin * es, p.count * es, kRead); },
         .to = [&](uint32_t, uint32_t r,
                   Slice p) { return flat(out_ + r, p.begin * es, p.count * es, kWrite); },
         .only_source = uint32_t(layout_.call().root),
         .direct = direct_puts});
    std::vector<RankPlan> parts;
    for (const uint32_t rank : ranks) {
      Part part(layout_, rank, 1, pipe.lane_count(),
                [&](uint32_t producer, uint32_t lane) { return pipe.posts(rank, producer, lane); });
      std::vector<uint32_t> peers;
      for (const uint32_t peer : part.peers()) {
        if (takes_part(rank) && takes_part(peer)) peers.push_back(peer);
      }
      part.set_peers(std::move(peers));
      part.enter(false);
      part.await(0);
      const bool keeps = is_root(rank) && receives(rank) && !layout_.call().in_place;
      if (keeps) part.copy(0, in(rank), out(rank, kWrite));
      if (takes_part(rank)) pipe.write(part);
      parts.push_back(part.finish());
    }
    return layout_.finish(std::move(parts));
  }

  Layout layout_;
  uint64_t bytes_;
  uint32_t in_ = 0, out_ = 0;
};

}  // namespace

Result<Plan> plan_broadcast(const OpDesc& op, const Target& target, Ranks ranks) {
  if (std::optional<Plan> plan = plan_in_levels(op, target, ranks)) return std::move(*plan);
  return FromOne(op, target).broadcast(ranks);
}

Result<Plan> plan_send_recv(const OpDesc& op, const Target& target, Ranks ranks) {
  return FromOne(op, target).send_recv(ranks);
}

}  // namespace sk::algo
