// Where a new front end finds the controller after the last one was lost.
//
// Who comes must run as this user and show the session's token in its first message.
#ifndef SK_LIB_CONTROL_HOST_DOOR_H_
#define SK_LIB_CONTROL_HOST_DOOR_H_

#include <array>
#include <optional>
#include <string>

#include "lib/control/framing.h"
#include "transport/local/link.h"
#include "transport/local/poller.h"

namespace sk::control {

class Door {
 public:
  static constexpr uint32_t kStrangersMax = 32;

  // `listener` listens under the session's name. Poller tokens of strangers: `first_token` +
  // n * `token_step`.
  Door(local::Poller& poller, local::Fd listener, uint64_t first_token, uint64_t token_step)
      : poller_(poller),
        listener_(std::move(listener)),
        first_token_(first_token),
        token_step_(token_step) {}
  ~Door();

  int fd() const { return listener_.get(); }
  void set(std::string name, std::string token);

  // Somebody knocks.
  void admit();
  // Reads what stranger `index` says; its link once it has shown the token and `free` is true. One
  // that shows another, or comes while the session has a front end, is sent away.
  std::optional<local::Link> hear(uint32_t index, bool free);

 private:
  struct Stranger {
    local::Link link;
    FrameReader reader;
    size_t bytes = 0;
    uint64_t number = 0;  // Of all that came.
  };
  void send_away(Stranger& stranger);

  local::Poller& poller_;
  local::Fd listener_;
  const uint64_t first_token_;
  const uint64_t token_step_;
  std::string name_;
  std::string token_;
  std::array<Stranger, kStrangersMax> strangers_;
  uint64_t came_ = 0;
};

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_HOST_DOOR_H_
