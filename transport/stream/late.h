// Streams that are made when they are first needed.
//
// A channel without one keeps what it is given, as behind any pipe that has no room; the Joiner
// makes the stream, without waiting, while somebody drives.
#ifndef SK_TRANSPORT_STREAM_LATE_H_
#define SK_TRANSPORT_STREAM_LATE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/stream/pipe.h"

namespace sk::stream {

// Has no room and nothing to receive.
class LatePipe final : public Pipe {
 public:
  Result<size_t> send(std::span<const iovec> /*parts*/) override { return size_t{0}; }
  Result<size_t> receive(std::span<std::byte> /*room*/) override { return size_t{0}; }
  bool ended() const override { return false; }
  int fd() const override { return -1; }
};

// With the endpoint's lock. Where it has something to do Readiness::wait() says so, or next_ns()
// has come.
class Joiner {
 public:
  virtual ~Joiner() = default;

  // A stream to `peer` is needed. As often as one likes.
  virtual void want(uint32_t peer) = 0;

  // What has come of a peer. Of one that could not be reached why, and no pipe:
  // SK_ERR_PEER_LOST: its host answers, and nobody listens there any more; SK_ERR_TRANSPORT:
  // nothing answers; SK_ERR_NO_MEMORY: this process has no descriptor for it. Such a one is dialled
  // again only where it is wanted anew.
  struct News {
    uint32_t peer = 0;
    std::string where;  // The address that answered, or was answered.
    std::unique_ptr<Pipe> pipe;
    Status why;
  };
  // Goes on as far as that goes without waiting.
  virtual std::vector<News> go_on() = 0;
  // When to go on at the latest, as Readiness has the time.
  virtual int64_t next_ns() const = 0;

  // No peer is about to be let in that may take the stream for made already.
  virtual bool settled() const = 0;
};

}  // namespace sk::stream

#endif  // SK_TRANSPORT_STREAM_LATE_H_
