// How the ranks of a large world, or of hosts that several share, learn that all of them have
// entered a collective.
//
// Up to kEnterEachMax ranks each tells each. Beyond that what they write grows with the square of
// their number, so they tell each other along one tree: a rank tells its parent once it and all
// below it have entered, and rank 0, which then knows that all have, says so downwards. That is a
// barrier both ways: nobody goes on before everybody has entered, just as where each tells each,
// and of two ranks that touch each other's memory each has heard of the other, if not from it.
//
// All collectives of such a world meet so, whatever plan they run: a rank that calls something else
// is in the tree as well. The way up tells whether all below have the same fingerprint, the way
// down whether all have.
//
// Where ranks share hosts, each tells the first one of its host, and these tell each other, which
// is way up and down in one: a message from each host to each other one.
#ifndef SK_LIB_EXEC_CPU_ENTRY_TREE_H_
#define SK_LIB_EXEC_CPU_ENTRY_TREE_H_

#include <span>
#include <vector>

#include "lib/base/status.h"
#include "transport/session.h"

namespace sk::cpu {

inline constexpr uint32_t kEnterEachMax = 64;

// Children of one rank. Where each rank has a core, three levels reach 584 others, and nobody reads
// or writes many lines. Where they share cores a level costs as long as it takes until a rank is
// scheduled, so there is one, up to 513 ranks.
inline constexpr uint32_t kArityAlone = 8, kArityShared = 512;

// Neighbours of a rank in the tree, by the number of ranks alone.
struct TreePlace {
  TreePlace(uint32_t rank, uint32_t world_size, uint32_t arity);
  bool is_root = true;
  uint32_t parent = 0;
  uint32_t first_child = 0, children = 0;
};

// The place of a rank in the tree and how far the call at hand has come there. Of one thread.
class EntryTree {
 public:
  // `arity`: the same at all ranks.
  EntryTree(Endpoint& endpoint, uint32_t arity);
  // Of ranks of several hosts (Target::host_of). Before the first call.
  void follow_hosts(std::span<const uint32_t> host_of);

  // Whether this world's collectives are entered along it; else nothing below is called.
  bool used() const { return used_; }
  // Whether it has ranks of several hosts: how far those of others are this one only knows if they
  // tell it, which they do once a call has lasted.
  bool crosses() const { return used_ && crosses_; }
  bool begun(uint64_t seq) const { return seq_ == seq; }
  // Whether this rank may judge that `peer` has not entered: of ranks of other hosts others hear
  // first, and may be slow to say so.
  bool hears_first_of(uint32_t peer) const { return far_.empty() || !far_[peer]; }

  // Enters call `seq`. Of a rank that declines `fingerprint` is 0.
  Status begin(uint64_t seq, uint64_t fingerprint);
  // Goes on as far as that needs no waiting. True once all have entered, or where telling so failed
  // (status()).
  bool step();

  bool over() const { return stage_ == Stage::kOver; }

  // Behind step():
  Status take_status() { return std::move(status_); }
  // Whether all have the same fingerprint and nobody has declined.
  bool alike() const { return alike_; }

  // Before: for whom it waits, of those who have not entered if any is known.
  uint32_t awaited() const;

 private:
  enum class Stage { kBelow, kAbove, kOver };
  void place(const TreePlace& place);
  bool hear_all(const std::vector<uint32_t>& peers);
  Status tell(uint32_t peer);
  bool arrived(uint32_t peer) const;
  void hear(uint32_t peer);
  Status go_on();

  Endpoint& endpoint_;
  bool used_, crosses_ = false;
  // Who tells this rank of themselves and of those below them; and whom it tells in turn, and who
  // tell it of all others: its parent, or the first ranks of the other hosts.
  std::vector<uint32_t> below_, above_;
  std::vector<bool> far_;  // By rank; empty where there are none.
  Stage stage_ = Stage::kOver;
  uint64_t seq_ = 0, fingerprint_ = 0;
  uint32_t heard_ = 0;  // Of `below_`, then of `above_`, so many have told.
  bool alike_ = true;   // As far as it is known.
  Status status_;
};

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_ENTRY_TREE_H_
