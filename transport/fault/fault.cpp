#include "transport/fault/fault.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <utility>

#include "transport/fault/network.h"

namespace sk {
namespace fault {
namespace {

class FaultSession final : public Session {
 public:
  FaultSession(Network& network, Session& inner, const SegmentLayout& layout, uint32_t from,
               uint32_t to)
      : network_(network), inner_(inner), layout_(layout), from_(from), to_(to) {
    caps_ = inner.caps();
    caps_.mapped = false;
    caps_.ordered = false;
    caps_.put_bytes_max = std::min(caps_.put_bytes_max, network.config().put_bytes_max);
  }

  const SessionCaps& caps() const override { return caps_; }
  const MappedView* mapped() const override { return nullptr; }

  Result<Sent> put(PutTarget dst, const void* src, size_t bytes, uint32_t signal,
                   uint32_t add) override {
    // What the inner session would refuse is refused now: later nobody would be told.
    if (bytes > layout_.bytes() || dst.offset > layout_.bytes() - bytes) {
      return error(SK_ERR_INTERNAL, "put of {} bytes at {} into a segment of {}", bytes, dst.offset,
                   layout_.bytes());
    }
    if (bytes > caps_.put_bytes_max) {
      return error(SK_ERR_INTERNAL, "put of {} bytes, the session takes {}", bytes,
                   caps_.put_bytes_max);
    }
    SK_RETURN_IF_ERROR(check_signal(signal));
    if (full_ || network_.full()) {
      full_ = true;
      return Sent::kAgain;
    }
    Message message = start(Message::Kind::kPut);
    message.signal = signal;
    message.add = add;
    const bool later = bytes != 0 && network_.later();
    if (later) message.sources = sources_;
    if (bytes != 0) network_.cut(message, dst.offset, src, bytes, !inner_.caps().ordered);
    SK_RETURN_IF_ERROR(network_.send(std::move(message)));
    return later ? Sent::kLater : Sent::kNow;
  }
  uint64_t taken() const override { return sources_->puts.load(); }
  uint64_t sent() const override { return sources_->sent.load(); }
  // The endpoint was driven.
  void make_room() { full_ = false; }

  Status post(uint32_t signal, uint32_t add) override {
    SK_RETURN_IF_ERROR(check_signal(signal));
    Message message = start(Message::Kind::kPost);
    message.signal = signal;
    message.add = add;
    return network_.send(std::move(message));
  }

  Status enter(const EntrySlot& entry, EntryLane lane, uint64_t seq) override {
    Message message = start(Message::Kind::kEnter);
    message.lane = lane;
    message.seq = seq;
    message.fingerprint = entry.fingerprint;
    message.other_lane = entry.other_lane;
    memcpy(message.words, entry.words, sizeof(message.words));
    __atomic_store_n(&entered_[lane], seq, __ATOMIC_RELAXED);
    return network_.send(std::move(message));
  }
  uint64_t entered(EntryLane lane) const override {
    return __atomic_load_n(&entered_[lane], __ATOMIC_RELAXED);
  }

 private:
  Message start(Message::Kind kind) {
    Message message;
    message.kind = kind;
    message.from = from_;
    message.to = to_;
    message.session = &inner_;
    return message;
  }
  Status check_signal(uint32_t signal) const {
    if (signal < layout_.signal_count_max) return {};
    return error(SK_ERR_INTERNAL, "post to signal {} of {}", signal, layout_.signal_count_max);
  }

  Network& network_;
  Session& inner_;
  const SegmentLayout& layout_;
  SessionCaps caps_;
  uint32_t from_;
  uint32_t to_;
  uint64_t entered_[kEntryLaneCount] = {};
  std::atomic<bool> full_{false};
  const std::shared_ptr<Sources> sources_ = std::make_shared<Sources>();
};

class FaultEndpoint final : public Endpoint {
 public:
  FaultEndpoint(std::shared_ptr<Network> network, std::unique_ptr<Endpoint> inner)
      : network_(std::move(network)), inner_(std::move(inner)) {
    rank_ = inner_->rank();
    layout_ = inner_->layout();
    own_ = inner_->own();
    driven_ = true;
    for (uint32_t peer = 0; peer < world_size(); ++peer) {
      sessions_.emplace_back(*network_, inner_->session(peer), layout_, rank_, peer);
    }
  }
  ~FaultEndpoint() override {
    network_->forget_sources(rank_);
    network_->flush(rank_);
  }

  Session& session(uint32_t peer) override { return sessions_[peer]; }
  bool mapped() const override { return false; }
  uint64_t entered_by(uint32_t peer) const override { return inner_->entered_by(peer); }
  std::optional<uint32_t> awaited_by(uint32_t peer) const override {
    return inner_->awaited_by(peer);
  }
  bool gone(uint32_t peer) override { return network_->killed() == peer || inner_->gone(peer); }
  bool unreachable(uint32_t peer) const override { return inner_->unreachable(peer); }
  Status commit(uint64_t offset, uint64_t bytes) override { return inner_->commit(offset, bytes); }
  Status release(uint64_t offset, uint64_t bytes) override {
    return inner_->release(offset, bytes);
  }

  void progress() override {
    make_room();
    network_->progress();
  }
  Status drain(int64_t) override {
    network_->flush(rank_);
    return {};
  }
  Status check() override {
    make_room();
    SK_RETURN_IF_ERROR(network_->drive());
    const uint32_t killed = network_->killed();
    if (killed < world_size()) inner_->abort(AbortCause::kPeerLost, killed, "");
    Status status = inner_->check();
    if (!status.ok()) network_->forget_sources(rank_);
    return status;
  }
  void abort(AbortCause cause, uint32_t rank, const std::string& reason) override {
    inner_->abort(cause, rank, reason);
    network_->forget_sources(rank_);
  }
  Status abort_status() const override { return inner_->abort_status(); }
  void sleep(uint32_t doorbell_seen, int64_t timeout_ns) override {
    make_room();
    // Delivery may ring this very doorbell; a failure of it shows again in check().
    if (network_->drive().ok()) inner_->sleep(doorbell_seen, timeout_ns);
  }
  void ring(uint32_t peer) override { inner_->ring(peer); }

 private:
  void make_room() {
    for (FaultSession& session : sessions_) session.make_room();
  }

  std::shared_ptr<Network> network_;
  std::unique_ptr<Endpoint> inner_;
  std::deque<FaultSession> sessions_;
};

}  // namespace

std::unique_ptr<Endpoint> Network::wrap(std::unique_ptr<Endpoint> inner) {
  return std::make_unique<FaultEndpoint>(shared_from_this(), std::move(inner));
}

}  // namespace fault

std::shared_ptr<FaultNetwork> make_fault_network(const FaultConfig& config) {
  return std::make_shared<fault::Network>(config);
}

}  // namespace sk
