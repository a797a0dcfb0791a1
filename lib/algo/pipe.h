// A block from every source rank to each of its receivers, by a ring of puts: what operations that
// move blocks have in common where nothing can be mapped.
#ifndef SK_LIB_ALGO_PIPE_H_
#define SK_LIB_ALGO_PIPE_H_

#include <functional>
#include <optional>

#include "lib/algo/ring.h"

namespace sk::algo {

struct PipeSpec {
  // What `source` sends to each receiver; count 0 where it sends none.
  std::function<Slice(uint32_t source)> block;
  std::function<bool(uint32_t source, uint32_t receiver)> flows;
  // Where it lies at the source, and where it ends at the receiver, both in elements.
  std::function<Region(uint32_t source, uint32_t receiver, Slice piece)> from;
  std::function<Region(uint32_t source, uint32_t receiver, Slice piece)> to;
  std::optional<uint32_t> only_source = std::nullopt;  // The one rank that sends any,
  std::optional<uint32_t> only_owner = std::nullopt;   // or that receives any.
  bool direct = false;  // Puts may reach `to` itself: no ring, no copy out.
};

class Pipe {
 public:
  Pipe(Layout& layout, PipeSpec spec);

  uint32_t lane_count() const { return ring_ ? ring_->lane_count() : 1; }
  // Posts of `producer` to `rank` in `lane`, for Part's signals.
  uint32_t posts(uint32_t rank, uint32_t producer, uint32_t lane) const;

  // The tasks of part.rank() between await and the end.
  void write(Part& part) const;

 private:
  void send(Part& part, uint32_t chunk) const;
  void receive(Part& part, uint32_t chunk) const;

  const Layout& layout_;
  PipeSpec spec_;
  Traffic traffic_;
  Chunks chunks_;
  std::optional<Ring> ring_;  // None where puts are direct.
};

}  // namespace sk::algo

#endif  // SK_LIB_ALGO_PIPE_H_
