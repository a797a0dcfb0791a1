// The sessions of one rank to ranks of the same host, by loads and stores.
#ifndef SK_TRANSPORT_SHM_ENDPOINT_H_
#define SK_TRANSPORT_SHM_ENDPOINT_H_

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transport/session.h"
#include "transport/shm/fd.h"
#include "transport/shm/segment.h"

namespace sk::shm {

class ShmSession final : public Session {
 public:
  ShmSession(std::byte* peer, const SegmentLayout& layout, uint32_t own_rank, bool mapped);

  const SessionCaps& caps() const override { return caps_; }
  std::byte* mapped() const override { return caps_.mapped ? peer_ : nullptr; }
  Status put(PutTarget dst, const void* src, size_t bytes, uint32_t signal, uint32_t add) override;
  Status post(uint32_t signal, uint32_t add) override;
  Status enter(const EntrySlot& entry, EntryLane lane, uint64_t seq) override;
  uint64_t entered(EntryLane lane) const override {
    return __atomic_load_n(&entered_[lane], __ATOMIC_RELAXED);
  }

  SegmentHeader& header() const { return *reinterpret_cast<SegmentHeader*>(peer_); }
  void ring();

 private:
  Status no_such_signal(uint32_t signal) const;
  // Not load, then store: the load would fetch the line from the peer that polls it, and only then
  // would the store fetch it again for itself; one read-modify-write takes it once. It also lets
  // several workers of a rank post one signal.
  void add_to(uint32_t signal, uint32_t add) {
    signals_[signal].value.fetch_add(add, std::memory_order_release);
    ring_sleeper();
  }
  void ring_sleeper() {
    if (header().sleeping.load(std::memory_order_relaxed) != 0) [[unlikely]]
      ring();
  }

  std::byte* peer_;
  SignalWord* signals_;
  EntrySlot* entries_;  // The own slots at the peer: [lane][parity].
  uint64_t segment_bytes_;
  uint32_t signal_count_max_;
  SessionCaps caps_;
  uint64_t entered_[kEntryLaneCount] = {};
};

// What an endpoint knows of a rank beyond its segment.
struct PeerWatch {
  std::shared_ptr<Segment> segment;
  pid_t process = 0;  // 0: not visible, or the own process.
  Fd fd;              // Readable or hung up once the process has ended; none for own threads.
  Fd keep_open;       // The connection by which the peer watches this rank.
};

class ShmEndpoint final : public Endpoint {
 public:
  // `peers` in rank order, the own rank among them. `deaths` is an epoll of their fds by rank, or
  // none where no peer has one: its queue is in the order of what happened, also while nobody
  // looks, so it says who died first.
  ShmEndpoint(uint32_t rank, const SegmentLayout& layout, std::vector<PeerWatch> peers, Fd deaths,
              bool hide_mapped);
  ~ShmEndpoint() override;

  Session& session(uint32_t peer) override { return sessions_[peer]; }
  uint64_t entered_by(uint32_t peer) const override {
    return sessions_[peer].header().entered.load(std::memory_order_acquire);
  }
  bool mapped() const override { return mapped_; }
  Status commit(uint64_t offset, uint64_t bytes) override;
  Status release(uint64_t offset, uint64_t bytes) override;
  Status check() override;
  void abort(AbortCause cause, uint32_t rank, const std::string& reason) override;
  Status abort_status() const override;
  void sleep(uint32_t doorbell_seen, int64_t timeout_ns) override;
  void ring(uint32_t peer) override { sessions_[peer].ring(); }

 private:
  // As the how manyth of all ranks it has freed its endpoint; 0: it has not.
  uint32_t left(uint32_t peer) const;
  bool will_not_enter(uint32_t peer) const;
  std::string reason_of(uint32_t rank) const { return peers_[rank].segment->header().reason(); }
  void find_dead_processes();
  void find_peers_that_left();

  const bool mapped_;
  const pid_t process_;
  std::vector<PeerWatch> peers_;
  const Fd deaths_;
  std::vector<ShmSession> sessions_;
  std::mutex check_mutex_;       // One of the workers that wait looks after the peers.
  std::mutex reason_mutex_;      // sk_comm_abort() may come from any thread.
  bool reason_written_ = false;  // Peers may be reading it from then on.
};

}  // namespace sk::shm

#endif  // SK_TRANSPORT_SHM_ENDPOINT_H_
