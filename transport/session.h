// Sessions: the connection of two ranks over one transport, and its contract.
//
//   put(dst, src, bytes, post): when the peer's counter post.signal has grown by post.add, those
//   bytes are at dst. Nothing is promised about the order of two puts.
//
// Its source is read until the put says that it is free (Sent). There may be no room for a put, and
// what is under way may move only while somebody drives it: Endpoint::progress(), for which no
// thread runs, but whoever waits.
//
// Shared memory, NVLink, TCP, RC and SRD can all keep that. Where caps().mapped, tasks may instead
// load and store the peer's segment through mapped(), and publish with an own release store.
//
// An Endpoint is one rank's end of all its sessions: its own segment and control block, the
// sessions to its peers, and the abort word that every wait watches. One thread at a time drives an
// endpoint's sessions, but for post() on mapped sessions, progress(), check() and abort(), which
// any thread may call.
#ifndef SK_TRANSPORT_SESSION_H_
#define SK_TRANSPORT_SESSION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "lib/base/status.h"

namespace sk {

class Absence;

// What planners read; executors do not.
struct SessionCaps {
  bool mapped = false;   // The peer's segment and control block can be loaded and stored.
  bool ordered = false;  // Puts of this session arrive in order.
  bool crosses = false;  // Over the link of the peer's host: it is another one.
  uint64_t put_bytes_max = UINT64_MAX;
};

// A counter that only grows, alone on its cache line so that two producers never share one. Only
// one rank ever adds to it. While one of its threads does, mapped posts may store a count kept by
// the producer; put() and post() add, so they must not be mixed with such stores on one signal.
struct alignas(64) SignalWord {
  std::atomic<uint64_t> value;
};
static_assert(sizeof(SignalWord) == 64);

// Entry slots: before any signal of a run, each rank writes one into every peer's block. Two per
// pair and lane, by the parity of seq: a rank that has finished call seq may enter seq + 1, but not
// seq + 2, before the peer has read its entry of seq. Collectives and calls between two ranks count
// their calls apart, each in a lane of its own. Where many ranks meet along a tree, what they tell
// each other there goes in a third, under the numbers of collectives.
enum EntryLane : uint32_t {
  kCollectiveLane = 0,
  kPairLane = 1,
  kTreeLane = 2,
  kEntryLaneCount = 3
};
inline constexpr uint32_t kEntryWords = 5;
struct alignas(64) EntrySlot {
  std::atomic<uint64_t> seq;  // Stored last, with release; counts entries from 1.
  uint64_t fingerprint;       // Of the call and its plan; 0: the writer cannot take part.
  // The last that the writer had entered in the other lane, towards the same peer: sessions keep no
  // order, so an entry there may arrive later than this one.
  uint64_t other_lane;
  uint64_t words[kEntryWords];  // What lib/exec tells the peers.
};
static_assert(sizeof(EntrySlot) == 64);

// What a rank has of shared memory. Its control block, [header | entry slots | signals], is what
// peers write and read all the time; the blocks of a host's ranks lie beside each other. Its
// segment, [workspace | symmetric heap], is its own. The same on every rank; workspace and heap
// begin at multiples of 2 MiB, for huge pages. Address space is reserved for all of it at
// connection; a segment's memory is committed page by page by the owner (commit()), before the
// first peer can be told of it.
struct SegmentLayout {
  uint32_t world_size = 1;
  uint32_t signal_count_max = 4096;  // Of all producers together: see Ledger in lib/exec.
  uint64_t workspace_bytes_max = 0;
  uint64_t heap_bytes_max = 0;
  // Of what header, entries and signals look like: grows with every change, so that two builds do
  // not take each other's memory for their own.
  uint32_t version = 6;

  // In the control block.
  uint64_t entry_offset() const;   // EntrySlot[world_size][kEntryLaneCount][2].
  uint64_t signal_offset() const;  // SignalWord[signal_count_max].
  uint64_t control_bytes() const;  // Whole pages, all committed at connection.

  // In the segment.
  uint64_t workspace_offset() const { return 0; }
  uint64_t heap_offset() const;
  uint64_t bytes() const;

  bool operator==(const SegmentLayout&) const = default;
};

// Which process a rank is in. A PID names the same process only to those of one PID namespace, and
// may be given anew once the process has ended.
struct ProcessName {
  uint64_t space = 0;       // Of the PID namespace; 0: not known.
  uint64_t start_time = 0;  // As /proc/PID/stat has it.
  int32_t pid = 0;
};

// At the start of every control block; shared with the peers.
//
// Wake protocol. A thread that has waited long: reads `doorbell`, adds 1 to `sleeping` (seq_cst),
// looks once more at what it waits for, calls Endpoint::sleep() with the doorbell it read and at
// most kSleepNsMax, then subtracts 1 again. Whoever posts reads `sleeping` after its store and,
// where it is not 0, adds 1 to `doorbell` and wakes the futex. The poster has no fence between
// store and load, for that would cost every post more than sleeping saves; so a wake can be lost,
// and then costs at most kSleepNsMax.
struct alignas(64) RankHeader {
  std::atomic<uint32_t> abort_word;  // 0, or abort_word(cause, rank): the first one wins.
  std::atomic<uint32_t> sleeping;    // Threads of the owner that sleep, or are about to.
  std::atomic<uint32_t> doorbell;    // Futex word.
  std::atomic<uint32_t> left;        // Not 0 once the owner has freed its endpoint.

  // Why the owner has aborted: text in words, so that reading it is no race whoever announced it.
  // Written once, by the owner, before the first abort word.
  static constexpr size_t kReasonBytesMax = 208;
  std::atomic<uint64_t> reason_words[kReasonBytesMax / 8];

  // Not 0 while the owner is in a call, where peers that are threads of its process have to know:
  // they have registered memory. On a line that nobody looks at while calls go well.
  std::atomic<uint32_t> inside;

  // 1 + the rank for which the owner has waited long (Endpoint::tell_awaited()); 0: none.
  std::atomic<uint32_t> awaited;

  // Where ranks meet along a tree: the last collective that the owner has entered, by which those
  // who wait long find out for whom. On that line, too.
  std::atomic<uint64_t> entered;

  // What the owner has heard of an end from another host: the abort word (0: nothing) and its
  // reason. Ranks of this host may have heard of it from nobody else. Written once, the word last.
  std::atomic<uint32_t> heard_word;
  std::atomic<uint64_t> heard_words[kReasonBytesMax / 8];

  // The owner's process, for who looks after it and for sentences. Written before any peer can
  // look.
  ProcessName process;

  void set_reason(const std::string& text);  // Cut to kReasonBytesMax.
  std::string reason() const;
  void set_heard(uint32_t word, const std::string& text);  // By one thread at a time.
  std::string heard(uint32_t word) const;                  // "": nothing of that word.
};
inline constexpr int64_t kSleepNsMax = 1'000'000;

// Values are shared between processes: never renumbered.
enum class AbortCause : uint32_t {
  kPeerLost = 1,  // `rank` died.
  kAborted = 2,   // `rank` has aborted, and gives the reason.
  kTimeout = 3,   // A wait of `rank` ran out; its reason says which.
  kPeerLeft = 4,  // `rank` freed its endpoint while others still waited for it.
  kAbsent = 5,    // `rank` waited for one that will not come; its reason says for whom, and why.
  kLinkLost = 6,  // Nothing comes from `rank` any more, and nothing says that it died.
};
// Whether the rank of the word is the one that gives the reason.
constexpr bool gives_reason(AbortCause cause) {
  return cause == AbortCause::kAborted || cause == AbortCause::kTimeout ||
         cause == AbortCause::kAbsent;
}
constexpr uint32_t abort_word(AbortCause cause, uint32_t rank) {
  return static_cast<uint32_t>(cause) << 24 | (rank + 1);
}
constexpr AbortCause abort_cause(uint32_t word) { return static_cast<AbortCause>(word >> 24); }
constexpr uint32_t abort_rank(uint32_t word) { return (word & 0xffffff) - 1; }

// Where a rank's control block is, mapped.
struct ControlBlock {
  RankHeader* header = nullptr;
  EntrySlot* entries = nullptr;
  SignalWord* signals = nullptr;
};
ControlBlock control_block_at(std::byte* start, const SegmentLayout& layout);

// What a rank can load and store of a peer.
struct MappedView {
  std::byte* segment = nullptr;
  ControlBlock control;
};

struct PutTarget {
  uint64_t offset;  // In the peer's segment.
};

// What has become of a put.
enum class Sent : uint8_t {
  kNow,    // `src` may be reused.
  kLater,  // `src` is read until sent() has come to what taken() says now.
  kAgain,  // Nothing has happened, for want of room: Endpoint::progress(), and once more.
};

class Session {
 public:
  virtual ~Session() = default;
  virtual const SessionCaps& caps() const = 0;

  // Null where not caps().mapped.
  virtual const MappedView* mapped() const = 0;

  // The contract above. `signal` indexes the peer's signals.
  virtual Result<Sent> put(PutTarget dst, const void* src, size_t bytes, uint32_t signal,
                           uint32_t add) = 0;

  // How many puts have been taken, and of how many, in that order, the sources are free. After an
  // error of check() none is read any more. Both 0 where every put is kNow. Any thread.
  virtual uint64_t taken() const { return 0; }
  virtual uint64_t sent() const { return 0; }

  // Adds to the peer's signal, after all of this thread's own stores so far are visible to the
  // peer. Puts of before may still be under way.
  virtual Status post(uint32_t signal, uint32_t add) = 0;

  // Writes the own entry slot at the peer, `seq` last.
  virtual Status enter(const EntrySlot& entry, EntryLane lane, uint64_t seq) = 0;

  // The seq of the last enter() in `lane`, 0 before the first. Any thread.
  virtual uint64_t entered(EntryLane lane) const = 0;

  // False: there is no way to the peer yet, and what is given first has one made, which takes both
  // a while. News that nobody needs are not worth that. Any thread.
  virtual bool connected() const { return true; }
};

class Endpoint {
 public:
  virtual ~Endpoint() = default;

  uint32_t rank() const { return rank_; }
  uint32_t world_size() const { return layout_.world_size; }
  const SegmentLayout& layout() const { return layout_; }

  // The own segment and control block, mapped.
  std::byte* segment() const { return own_.segment; }
  RankHeader& header() const { return *own_.control.header; }
  SignalWord* signals() const { return own_.control.signals; }
  const EntrySlot& entry(uint32_t peer, EntryLane lane, uint64_t seq) const {
    return own_.control.entries[(peer * kEntryLaneCount + lane) * 2 + (seq & 1)];
  }
  const MappedView& own() const { return own_; }

  // Also of the own rank: puts and posts to itself.
  virtual Session& session(uint32_t peer) = 0;

  // True where all sessions are mapped.
  virtual bool mapped() const = 0;

  // Who will not come; null: nobody knows. Set once, before the first call; outlives the endpoint.
  void set_absence(const Absence* absence) { absence_ = absence; }
  const Absence* absence() const { return absence_; }

  // RankHeader::entered of a peer, as far as it is known here: for sentences, and for what to do
  // about peers that are gone, not for knowing that an entry has arrived.
  virtual uint64_t entered_by(uint32_t peer) const = 0;

  // Tells the peers for whom this rank has waited a good part of a wait's time, none: no more. By
  // that one that gives up names who is late, and not who waits for that rank as well. Any thread,
  // as often as it likes.
  // It is for sentences alone: where memory runs out they know less.
  virtual void tell_awaited(std::optional<uint32_t> rank) noexcept {
    header().awaited.store(rank ? *rank + 1 : 0, std::memory_order_relaxed);
  }
  // What `peer` has told, as far as it is known here.
  virtual std::optional<uint32_t> awaited_by([[maybe_unused]] uint32_t peer) const { return {}; }

  // Whether `peer` can take part in nothing any more, as far as can be seen from here: its process
  // has ended, it has freed its endpoint, or the connection to its host was lost. Also once all
  // calls have ended; who is gone stays so. Any thread.
  virtual bool gone(uint32_t peer) = 0;
  // Of one that is gone: only its connection was lost. Its process may live.
  virtual bool unreachable([[maybe_unused]] uint32_t peer) const { return false; }

  // Takes memory for [offset, offset + bytes) of the own segment, zero-filled, or says
  // SK_ERR_NO_MEMORY; release() gives it back. Offsets and sizes are multiples of 4096.
  virtual Status commit(uint64_t offset, uint64_t bytes) = 0;
  virtual Status release(uint64_t offset, uint64_t bytes) = 0;

  // Moves what is under way, both ways, as far as that goes without waiting; what comes in it
  // stores, and adds to the own signals. Every wait calls it all the time where driven(), for
  // nothing moves else. What ends by it check() tells. Any thread; while one is at it, others
  // return at once.
  virtual void progress() {}
  bool driven() const { return driven_; }

  // Until the peers have all that was put, posted and entered here, or no peer is left that could
  // take it: before the endpoint goes.
  virtual Status drain([[maybe_unused]] int64_t timeout_ns) { return {}; }

  // Called by every wait that has lasted longer than about 50 us, then at most every few ms: looks
  // after lost peers. On a lost peer or an abort it says
  // which (abort_status()), having told every rank by their abort words. A peer that has freed its
  // endpoint is lost only to those whose current call it has not entered: what it posted before
  // has arrived. Any thread.
  virtual Status check() = 0;

  // Ends all ranks' waits: writes every reachable abort word and rings the doorbells. All ranks see
  // the same cause, the first one. `rank` is who is lost or has left; kAborted, kTimeout and
  // kAbsent are always of the own rank, with its `reason`. Any thread.
  virtual void abort(AbortCause cause, uint32_t rank, const std::string& reason) = 0;

  // What check() does before it answers, and abort() with a word that came from elsewhere: of an
  // endpoint that is part of one.
  virtual void look_after_peers() { (void)check(); }
  virtual void end_waits(uint32_t word) { abort(abort_cause(word), abort_rank(word), ""); }

  // What a rank of this host has given as its reason of that abort word, or has heard from another
  // host: "" where nothing is known here. Any thread.
  virtual std::string reason_of_end(uint32_t word) const {
    const bool is_own = gives_reason(abort_cause(word)) && abort_rank(word) == rank_;
    return is_own ? header().reason() : header().heard(word);
  }

  // The sentence for the own abort word's value (not 0).
  virtual Status abort_status() const = 0;

  // Sleeps on the own doorbell until it rings or `timeout_ns` has passed, or for no reason: step
  // three of the wake protocol above. Where driven(), what could move wakes it, too.
  virtual void sleep(uint32_t doorbell_seen, int64_t timeout_ns) = 0;

  // Wakes `peer` if it sleeps: to be called after posting directly through mapped().
  virtual void ring(uint32_t peer) = 0;

 protected:
  uint32_t rank_ = 0;
  SegmentLayout layout_;
  MappedView own_;
  bool driven_ = false;

 private:
  const Absence* absence_ = nullptr;
};

}  // namespace sk

#endif  // SK_TRANSPORT_SESSION_H_
