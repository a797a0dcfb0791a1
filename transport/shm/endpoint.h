// The sessions of one rank to ranks of the same host, by loads and stores.
#ifndef SK_TRANSPORT_SHM_ENDPOINT_H_
#define SK_TRANSPORT_SHM_ENDPOINT_H_

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transport/session.h"
#include "transport/shm/control.h"
#include "transport/shm/join.h"
#include "transport/shm/shm.h"

namespace sk::shm {

class ShmSession final : public Session {
 public:
  ShmSession(const MappedView& peer, const SegmentLayout& layout, uint32_t own_rank, bool mapped);

  const SessionCaps& caps() const override { return caps_; }
  const MappedView* mapped() const override { return caps_.mapped ? &peer_ : nullptr; }
  Result<Sent> put(PutTarget dst, const void* src, size_t bytes, uint32_t signal,
                   uint32_t add) override;
  Status post(uint32_t signal, uint32_t add) override;
  Status enter(const EntrySlot& entry, EntryLane lane, uint64_t seq) override;
  uint64_t entered(EntryLane lane) const override {
    return __atomic_load_n(&entered_[lane], __ATOMIC_RELAXED);
  }

  RankHeader& header() const { return *peer_.control.header; }
  void ring();

 private:
  Status no_such_signal(uint32_t signal) const;
  // Not load, then store: the load would fetch the line from the peer that polls it, and only then
  // would the store fetch it again for itself; one read-modify-write takes it once. It also lets
  // several workers of a rank post one signal.
  void add_to(uint32_t signal, uint32_t add) {
    peer_.control.signals[signal].value.fetch_add(add, std::memory_order_release);
    ring_sleeper();
  }
  void ring_sleeper() {
    if (header().sleeping.load(std::memory_order_relaxed) != 0) [[unlikely]]
      ring();
  }

  MappedView peer_;
  EntrySlot* entries_;  // The own slots at the peer: [lane][parity].
  uint64_t segment_bytes_;
  uint32_t signal_count_max_;
  SessionCaps caps_;
  uint64_t entered_[kEntryLaneCount] = {};
};

class ShmEndpoint final : public Endpoint {
 public:
  // `ranks`: those of this host; there are no sessions to others.
  ShmEndpoint(uint32_t rank, std::vector<uint32_t> ranks, const SegmentLayout& layout,
              Joined joined, const ShmConfig& config);
  ~ShmEndpoint() override;

  Session& session(uint32_t peer) override { return sessions_[peer]; }
  uint64_t entered_by(uint32_t peer) const override {
    return header_of(peer).entered.load(std::memory_order_acquire);
  }
  std::optional<uint32_t> awaited_by(uint32_t peer) const override {
    const uint32_t word = header_of(peer).awaited.load(std::memory_order_relaxed);
    return word == 0 ? std::nullopt : std::optional(word - 1);
  }
  bool mapped() const override { return mapped_; }
  bool gone(uint32_t peer) override;
  Status commit(uint64_t offset, uint64_t bytes) override;
  Status release(uint64_t offset, uint64_t bytes) override;
  Status check() override;
  void look_after_peers() override;
  void abort(AbortCause cause, uint32_t rank, const std::string& reason) override;
  void end_waits(uint32_t word) override;
  std::string reason_of_end(uint32_t word) const override;
  Status abort_status() const override;
  void sleep(uint32_t doorbell_seen, int64_t timeout_ns) override;
  void ring(uint32_t peer) override { sessions_[peer].ring(); }

 private:
  HostHeader& host() const { return host_header(*joined_.control); }
  RankHeader& header_of(uint32_t rank) const { return sessions_[rank].header(); }
  // As the how manyth of all ranks it has freed its endpoint; 0: it has not.
  uint32_t left(uint32_t rank) const;
  bool will_not_enter(uint32_t peer) const;
  std::string reason_of(uint32_t rank) const { return header_of(rank).reason(); }
  bool same_process(uint32_t rank) const;
  void keep_watch();
  void watch_others();
  void find_dead_processes();
  void find_peers_that_left();

  const bool mapped_;
  const bool use_pidfd_;
  const pid_t process_;
  const std::vector<uint32_t> ranks_;
  Joined joined_;
  std::vector<uint32_t> unwatched_;   // Ranks that this one is to look after, and does not yet.
  std::vector<ShmSession> sessions_;  // By rank; empty ones of other hosts' ranks.
  std::mutex check_mutex_;            // One of the workers that wait looks after the peers.
  std::mutex reason_mutex_;           // sk_comm_abort() may come from any thread.
  bool reason_written_ = false;       // Peers may be reading it from then on.
};

}  // namespace sk::shm

#endif  // SK_TRANSPORT_SHM_ENDPOINT_H_
