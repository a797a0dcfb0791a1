// The two directions between this rank and one of another host: what it puts, posts and enters
// there, and what comes from there. With the endpoint's lock, but for what says otherwise.
#ifndef SK_TRANSPORT_STREAM_CHANNEL_H_
#define SK_TRANSPORT_STREAM_CHANNEL_H_

#include <atomic>
#include <deque>
#include <memory>
#include <string>

#include "transport/session.h"
#include "transport/stream/inbox.h"
#include "transport/stream/late.h"
#include "transport/stream/outbox.h"
#include "transport/stream/pipe.h"

namespace sk::stream {

class Channel {
 public:
  static constexpr uint64_t kCopiedBytes = 16 << 10;    // A put of at most so many may be copied,
  static constexpr uint64_t kCopiedBytesMax = 1 << 20;  // while no more than this waits.
  static constexpr uint32_t kBorrowedMax = 256;         // Puts whose source is read later.

  // `pipe` null: it is connected later, and keeps until then what it is given.
  Channel(uint32_t peer, const MappedView& own, const SegmentLayout& layout,
          std::unique_ptr<Pipe> pipe)
      : own_(own),
        connected_(pipe != nullptr),
        inbox_(peer, own, layout),
        pipe_(pipe != nullptr ? std::move(pipe) : std::make_unique<LatePipe>()) {}

  // Of one that was made without a pipe: what it has been given goes through this one,
  void connect(std::unique_ptr<Pipe> pipe);
  // or nowhere.
  void give_up(Status why);

  // As the session's. What a broken channel is given is lost: check() tells why.
  Sent put(PutTarget dst, std::span<const std::byte> bytes, uint32_t signal, uint32_t add);
  void post(uint32_t signal, uint32_t add);
  void enter(const EntrySlot& entry, EntryLane lane, uint64_t seq);
  // These have nobody connected who is not. An end is told also to a peer whose host does not
  // answer: that may hear this rank all the same.
  void tell_abort(uint32_t word, const std::string& reason);
  void tell_awaited(uint32_t word);
  void ask();
  void tell(std::span<const RankLine> lines);
  void leave();
  // From here on no memory of a call's is read, and what comes is stored nowhere.
  void forget_memory();
  void look_after();

  // Moves both directions as far as they go, `budget` bytes of what comes at most; true where
  // something came that a wait may look for.
  bool pump(size_t budget);

  // All that was given here has been taken from here,
  bool drained() const { return outbox_.empty() && !pipe_->holds_output(); }
  // and is where the peer finds it though this rank is gone. Or nobody can get it there any more.
  bool delivered() const { return !can_send() || (drained() && pipe_->delivered()); }
  bool wants_room() const { return can_send() && !drained(); }
  // Not: it is broken, or has come to its end. pump() does nothing then.
  bool open() const { return ending_.ok(); }
  const Status& ending() const { return ending_; }  // Why it is not open.
  const Inbox& inbox() const { return inbox_; }
  Inbox& inbox() { return inbox_; }
  Pipe& pipe() const { return *pipe_; }

  // Any thread.
  bool connected() const { return connected_.load(std::memory_order_acquire); }
  uint64_t taken() const { return taken_.load(std::memory_order_relaxed); }
  uint64_t sent() const { return sent_.load(std::memory_order_acquire); }
  uint64_t entered() const { return peer_entered_.load(std::memory_order_acquire); }

 private:
  void send();
  bool can_send() const { return open() && unsendable_.ok(); }
  bool can_put() const { return can_send() && !forgotten_; }
  void send_no_more(Status why);
  void note_sent();

  const MappedView own_;
  std::atomic<bool> connected_;
  Inbox inbox_;
  Outbox outbox_;
  std::unique_ptr<Pipe> pipe_;
  std::deque<uint64_t> borrowed_puts_;  // The numbers of those whose sources are still read.
  std::atomic<uint64_t> taken_{0}, sent_{0}, peer_entered_{0};
  bool forgotten_ = false;  // No memory of a call's is read any more.
  Status unsendable_, ending_;
  bool silent_ = false;  // It has ended because the peer's host says nothing, between two frames.
};

}  // namespace sk::stream

#endif  // SK_TRANSPORT_STREAM_CHANNEL_H_
