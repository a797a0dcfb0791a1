// Connects ranks of different hosts whose communicator stands, when they first need it: by the
// listeners and the key with which hosts have met.
#ifndef SK_TRANSPORT_TCP_LATE_H_
#define SK_TRANSPORT_TCP_LATE_H_

#include <memory>
#include <string>
#include <vector>

#include "transport/stream/late.h"
#include "transport/tcp/epoll.h"
#include "transport/tcp/pairing.h"

namespace sk::tcp {

struct LateInput {
  uint32_t rank = 0;
  uint32_t world_size = 1;
  std::vector<uint32_t> peers;                  // That have no stream yet.
  std::vector<std::vector<Address>> addresses;  // By rank.
  std::vector<SocketPtr> listeners;
  MeetingKey key;
  TcpConfig config;
};

class LateJoiner final : public stream::Joiner {
 public:
  // `endpoints`: where streams that are made are watched from then on; outlives it.
  static Result<std::unique_ptr<LateJoiner>> make(LateInput input, Epoll& endpoints);
  ~LateJoiner() override;

  void want(uint32_t peer) override;
  std::vector<News> go_on() override;
  int64_t next_ns() const override { return next_ns_; }
  bool settled() const override;

 private:
  struct Wanted {
    uint32_t peer = 0;
    Status silent;  // A greeting's, whose host has fallen silent.
  };

  LateJoiner(LateInput input, Epoll& endpoints, int epoll);
  void watch_listeners(bool knocks);
  void see_who_is_ready();
  void watch(Pairing::Connection& connection);
  void look_for_room(int64_t now_ns);
  void look_after(int64_t now_ns);
  void hand_over(std::vector<News>& news);
  void give_up_some(int64_t now_ns, std::vector<News>& news);
  Status why_give_up(const Pairing::Pair& pair, const Wanted& wanted, int64_t now_ns) const;
  void plan_next(int64_t now_ns);

  const LateInput in_;
  Epoll& endpoints_;
  const int epoll_;
  Pairing pairing_;
  std::vector<Wanted> wanted_;
  bool knocked_ = false;
  Status no_room_;
  int64_t no_room_since_ns_ = 0, no_room_ns_ = 0;  // 0: there is room.
  bool knocks_ = true;                             // Listeners are watched.
  int64_t looked_after_ns_ = 0;
  int64_t next_ns_ = INT64_MAX;
};

}  // namespace sk::tcp

#endif  // SK_TRANSPORT_TCP_LATE_H_
