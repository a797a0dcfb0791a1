// A rank of another host as its endpoint has it: a channel, and the session that sends through it.
#ifndef SK_TRANSPORT_STREAM_PEER_H_
#define SK_TRANSPORT_STREAM_PEER_H_

#include <atomic>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "transport/stream/endpoint.h"

namespace sk::stream {

class HostsEndpoint::StreamSession final : public Session {
 public:
  StreamSession(HostsEndpoint& endpoint, uint32_t peer, Channel& channel)
      : endpoint_(endpoint), peer_(peer), channel_(channel) {
    caps_.ordered = true;
    caps_.crosses = true;
  }
  const SessionCaps& caps() const override { return caps_; }
  const MappedView* mapped() const override { return nullptr; }

  Result<Sent> put(PutTarget dst, const void* src, size_t bytes, uint32_t signal,
                   uint32_t add) override {
    const uint64_t end = endpoint_.layout().bytes();
    if (bytes > end || dst.offset > end - bytes) [[unlikely]] {
      return error(SK_ERR_INTERNAL, "put of {} bytes at {} into a segment of {}", bytes, dst.offset,
                   end);
    }
    SK_RETURN_IF_ERROR(check_signal(signal));
    const Sending sending(*this);
    return channel_.put(dst, std::span(static_cast<const std::byte*>(src), bytes), signal, add);
  }
  uint64_t taken() const override { return channel_.taken(); }
  uint64_t sent() const override { return channel_.sent(); }

  Status post(uint32_t signal, uint32_t add) override {
    SK_RETURN_IF_ERROR(check_signal(signal));
    const Sending sending(*this);
    channel_.post(signal, add);
    return {};
  }

  Status enter(const EntrySlot& entry, EntryLane lane, uint64_t seq) override {
    entered_[lane].store(seq, std::memory_order_relaxed);
    const Sending sending(*this);
    channel_.enter(entry, lane, seq);
    return {};
  }
  uint64_t entered(EntryLane lane) const override {
    return entered_[lane].load(std::memory_order_relaxed);
  }
  bool connected() const override { return channel_.connected(); }

 private:
  // With the lock; behind it, what found no room is waited for by who sleeps.
  class Sending {
   public:
    explicit Sending(StreamSession& session) : session_(session), lock_(session.endpoint_.mutex_) {}
    ~Sending() { session_.endpoint_.note_room(session_.peer_); }
    Sending(const Sending&) = delete;
    Sending& operator=(const Sending&) = delete;

   private:
    StreamSession& session_;
    const std::lock_guard<std::mutex> lock_;
  };
  Status check_signal(uint32_t signal) const {
    const uint32_t end = endpoint_.layout().signal_count_max;
    if (signal < end) [[likely]]
      return {};
    return error(SK_ERR_INTERNAL, "signal {} of {}", signal, end);
  }

  HostsEndpoint& endpoint_;
  const uint32_t peer_;
  Channel& channel_;
  SessionCaps caps_;
  std::atomic<uint64_t> entered_[kEntryLaneCount] = {};
};

// Another host, of whose ranks this one is not connected to all.
struct HostsEndpoint::Host {
  explicit Host(uint32_t least) : rank(least) {}
  const uint32_t rank;  // The least one there.
  // Whom this rank has asked last what they are at, and who has not answered since.
  Peer* asked = nullptr;
  std::atomic<uint32_t> silent{UINT32_MAX};
};

struct HostsEndpoint::Peer {
  Peer(HostsEndpoint& endpoint, Remote remote)
      : rank(remote.rank),
        where(std::move(remote.where)),
        channel(rank, endpoint.own(), endpoint.layout(), std::move(remote.pipe)),
        session(endpoint, rank, channel) {}
  const uint32_t rank;
  std::string where;
  Channel channel;
  StreamSession session;
  bool wanted_room = false;
  uint32_t ended_as = 0;  // The how manyth to leave or to be lost; 0: neither,
  int64_t ended_ns = 0;   // and when.
  // Where others' words count, too: its host, and what others there have told of it.
  Host* host = nullptr;
  std::atomic<uint64_t> told_entered{0};
  std::atomic<uint32_t> told_awaited{0};
};

}  // namespace sk::stream

#endif  // SK_TRANSPORT_STREAM_PEER_H_
