// What the other side's kernel has answered, by this side's.
#ifndef SK_TRANSPORT_TCP_ANSWERS_H_
#define SK_TRANSPORT_TCP_ANSWERS_H_

#include <cstdint>
#include <optional>

namespace sk::tcp {

struct Answers {
  uint32_t unanswered =
      0;                 // How often the kernel has asked in vain, by sending again or by probes.
  bool probing = false;  // By probes: nothing was under way, and nothing had come for a while.
  uint64_t count = 0;    // Grows with every answer.
};

// Data that comes is no answer by itself: a host that hears nothing sends its own again and again.
// It is one where it acknowledges something, and so is what comes without data.
std::optional<Answers> answers_of(int fd);

}  // namespace sk::tcp

#endif  // SK_TRANSPORT_TCP_ANSWERS_H_
