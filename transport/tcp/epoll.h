// Which sockets are ready, by the kernel's epoll.
#ifndef SK_TRANSPORT_TCP_EPOLL_H_
#define SK_TRANSPORT_TCP_EPOLL_H_

#include <memory>
#include <vector>

#include "lib/base/status.h"
#include "transport/stream/readiness.h"

namespace sk::tcp {

class Epoll final : public stream::Readiness {
 public:
  static Result<std::unique_ptr<Epoll>> make(uint32_t world_size);
  ~Epoll() override;

  Status add(uint32_t peer, int fd);
  Status add_joiner(int fd);

  void wait(int64_t timeout_ns, std::vector<uint32_t>& peers) override;
  void wants_room(uint32_t peer, bool wants) override;
  void forget(uint32_t peer) override;
  void wake() override;
  int64_t now_ns() const override;

 private:
  Epoll(int epoll, int event, uint32_t world_size)
      : epoll_(epoll), event_(event), fds_(world_size, -1) {}
  const int epoll_, event_;
  std::vector<int> fds_;  // By peer; -1: none.
};

}  // namespace sk::tcp

#endif  // SK_TRANSPORT_TCP_EPOLL_H_
