// Which of an endpoint's channels may have something to do.
#ifndef SK_TRANSPORT_STREAM_READINESS_H_
#define SK_TRANSPORT_STREAM_READINESS_H_

#include <cstdint>
#include <vector>

namespace sk::stream {

class Readiness {
 public:
  virtual ~Readiness() = default;

  // In the place of a peer: the Joiner has something to do.
  static constexpr uint32_t kJoiner = UINT32_MAX;

  // The peers from whom something may have come, or to whom there may be room again for what
  // wants_room(); waits at most `timeout_ns` (0: only looks) until there is one, or wake().
  virtual void wait(int64_t timeout_ns, std::vector<uint32_t>& peers) = 0;
  virtual void wants_room(uint32_t peer, bool wants) = 0;
  virtual void forget(uint32_t peer) = 0;  // Its channel has come to its end.
  virtual void wake() = 0;                 // Whoever waits. Any thread.

  virtual int64_t now_ns() const = 0;  // Monotonic.
};

}  // namespace sk::stream

#endif  // SK_TRANSPORT_STREAM_READINESS_H_
