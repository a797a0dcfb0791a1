// One rank's end of sessions to ranks of several hosts: those of its own host are another
// endpoint's, whose segment and control block are this one's, too; the others go over channels.
//
// No thread and no clock: whoever waits drives it, by progress(), sleep() and drain(); what else
// drives it, between calls, is of the room above.
#ifndef SK_TRANSPORT_STREAM_ENDPOINT_H_
#define SK_TRANSPORT_STREAM_ENDPOINT_H_

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "transport/session.h"
#include "transport/stream/channel.h"
#include "transport/stream/late.h"
#include "transport/stream/readiness.h"

namespace sk::stream {

// A rank of another host.
struct Remote {
  uint32_t rank = 0;
  std::string where;           // For sentences: "10.0.0.2".
  std::unique_ptr<Pipe> pipe;  // Null: the Joiner makes one where it is needed.
  uint32_t host = 0;           // The least rank of its host; with a Joiner alone.
};

class HostsEndpoint : public Endpoint {
 public:
  // `local`: of the whole world's layout, with sessions to the ranks that no `remotes` has.
  // `joiner`: null where all `remotes` have a pipe. To each host there is at least one from the
  // start.
  HostsEndpoint(std::unique_ptr<Endpoint> local, std::vector<Remote> remotes,
                std::unique_ptr<Readiness> readiness, std::unique_ptr<Joiner> joiner = nullptr);
  ~HostsEndpoint() override;

  Session& session(uint32_t peer) override;
  uint64_t entered_by(uint32_t peer) const override;
  bool mapped() const override { return false; }
  void tell_awaited(std::optional<uint32_t> rank) noexcept override;
  std::optional<uint32_t> awaited_by(uint32_t peer) const override;
  bool gone(uint32_t peer) override;
  bool unreachable(uint32_t peer) const override;
  Status commit(uint64_t offset, uint64_t bytes) override { return local_->commit(offset, bytes); }
  Status release(uint64_t offset, uint64_t bytes) override {
    return local_->release(offset, bytes);
  }
  void progress() override;
  Status drain(int64_t timeout_ns) override;
  Status check() override;
  void abort(AbortCause cause, uint32_t rank, const std::string& reason) override;
  void end_waits(uint32_t word) override;
  Status abort_status() const override;
  void sleep(uint32_t doorbell_seen, int64_t timeout_ns) override;
  void ring(uint32_t peer) override;

 protected:
  // How often it has been driven by who waits: changes while somebody does.
  uint64_t drives() const { return drives_.load(std::memory_order_relaxed); }
  // As progress(), of who is no wait; true: there is more that no event tells of.
  bool drive();
  Readiness& readiness() { return *readiness_; }
  // How long who is no wait may sleep at most, for what nothing wakes it for.
  int64_t rest_ns(int64_t most_ns);
  bool forked() const;  // A forked child's copy: the rank itself goes on.
  // Tells the peers that this rank leaves, and sends what is left, for a while at most. Once.
  void leave();

 private:
  class StreamSession;
  struct Peer;
  struct Host;

  // With the lock.
  bool pump_all();
  bool pump(Peer& peer);
  bool join_some();
  void take(Joiner::News news);
  void want(uint32_t rank);
  int64_t rest_ns() const;  // Until the Joiner is to go on.
  Host& host_of(uint32_t least);
  void tell_newcomer(Peer& peer);
  void ask_hosts(bool waits);
  void answer(Peer& peer);
  void note_told(Peer& by);
  void note_heard(uint32_t word, const std::string& reason);
  void note_room(uint32_t rank);
  void note_end(Peer& peer);
  void look_after_hosts();
  void find_ends();
  void tell_abort();
  void forget_memory() const;

  void await_reason(uint32_t word) const;  // Without it.
  bool has_reason(uint32_t word) const;
  std::string reason_of(uint32_t word) const;
  bool will_not_enter(const Peer& peer) const;
  bool is_cut_off(const Peer& peer) const;
  uint32_t own_abort_word() const { return header().abort_word.load(std::memory_order_acquire); }

  const pid_t process_;
  std::unique_ptr<Endpoint> local_;
  std::unique_ptr<Readiness> readiness_;
  std::unique_ptr<Joiner> joiner_;  // Null, too, once this rank has left.
  const bool joins_late_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<Peer*> by_rank_;  // Null: of this host.
  mutable std::mutex mutex_;    // Of all channels.
  std::vector<uint32_t> ready_;
  std::vector<uint32_t> more_;  // Peers whose pipes hold input, of which no event tells.
  std::atomic<uint64_t> drives_{0};
  std::atomic<uint64_t> came_{0};  // How often something came.
  uint32_t heard_word_ = 0;  // The first abort word that came from another host, and its reason.
  std::string heard_reason_;
  uint32_t ends_ = 0;
  int64_t looked_after_ns_ = 0;
  uint32_t told_awaited_ = 0;
  int64_t asked_ns_ = 0, asks_since_ns_ = 0;  // Of hosts: last, and since when in this wait.
  bool told_abort_ = false;
  bool left_ = false;
};

}  // namespace sk::stream

#endif  // SK_TRANSPORT_STREAM_ENDPOINT_H_
