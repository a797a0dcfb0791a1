// One end of a stream of bytes between two processes: reliable and in order, until it ends.
//
// Nothing here waits. A pipe is used by one thread at a time.
#ifndef SK_TRANSPORT_STREAM_PIPE_H_
#define SK_TRANSPORT_STREAM_PIPE_H_

#include <sys/uio.h>

#include <cstddef>
#include <span>

#include "lib/base/status.h"

namespace sk::stream {

class Pipe {
 public:
  virtual ~Pipe() = default;

  // Takes bytes of `parts`, from the front, as many as there is room for; 0: none yet. What is
  // taken may be overwritten. An error: the stream is broken, and says how
  // (SK_ERR_PEER_LOST: the other end is closed; SK_ERR_TRANSPORT: what is between; SK_ERR_TRUST).
  virtual Result<size_t> send(std::span<const iovec> parts) = 0;

  // Bytes that have come, at most as many as `room` has; 0: none yet, or ended().
  virtual Result<size_t> receive(std::span<std::byte> room) = 0;

  // The same, and what has come behind that, where it is had by the same call.
  virtual Result<size_t> receive(std::span<std::byte> room,
                                 [[maybe_unused]] std::span<std::byte> behind) {
    return receive(room);
  }

  // The other end has closed its side, all that it sent has been received.
  virtual bool ended() const = 0;

  // Bytes that were taken and are still in here, because what is below has no room: send() with no
  // parts tries again.
  virtual bool holds_output() const { return false; }

  // Bytes that have come and wait in here, where poll() on fd() does not see them.
  virtual bool holds_input() const { return false; }

  // The host of the other end has all that was taken: closing this end loses none of it.
  virtual bool delivered() const { return !holds_output(); }

  // Says why, where the other end's host does not answer any more; to be asked now and then.
  virtual Status look_after() { return {}; }

  // What to poll for more input, or for room; -1: there is nothing to poll.
  virtual int fd() const = 0;
};

}  // namespace sk::stream

#endif  // SK_TRANSPORT_STREAM_PIPE_H_
