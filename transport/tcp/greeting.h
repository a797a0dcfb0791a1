// What is said first on a connection: who dials whom, and that both belong to this meeting.
//
//   dialer: Hello; acceptor: Answer with its proof; dialer: its proof.
//
// The proofs are MACs under a key of this meeting alone over all that was said, with a number that
// each has drawn: nothing can be repeated or sent back. Then the lower rank says over one of the
// pair's connections that it is to be theirs, and what follows is the channel's.
#ifndef SK_TRANSPORT_TCP_GREETING_H_
#define SK_TRANSPORT_TCP_GREETING_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "transport/bootstrap/secret.h"
#include "transport/stream/pipe.h"

namespace sk::tcp {

// The meeting's: what all of its ranks have gathered, and the job's secret where it has one.
struct MeetingKey {
  Mac bytes = {};
};

class Greeting {
 public:
  enum class State {
    kUnderWay,
    kProven,  // The other is a rank of this meeting: rank peer().
    kChosen,  // And this is the connection of the pair.
  };

  // As the dialer: `peer` is whom it means to reach.
  static Result<std::unique_ptr<Greeting>> dial(const MeetingKey& key, uint32_t own, uint32_t peer,
                                                std::unique_ptr<stream::Pipe> pipe);
  static Result<std::unique_ptr<Greeting>> accept(const MeetingKey& key, uint32_t own,
                                                  uint32_t world_size,
                                                  std::unique_ptr<stream::Pipe> pipe);

  // Goes on as far as it goes; an error: this connection comes to nothing.
  Result<State> go_on();
  // By the lower rank, where it is proven.
  Status choose();

  bool dials() const { return dials_; }
  State state() const { return state_; }
  uint32_t peer() const { return peer_; }
  stream::Pipe& pipe() { return *pipe_; }
  std::unique_ptr<stream::Pipe> take_pipe() { return std::move(pipe_); }
  bool wants_room() const { return out_at_ < out_.size() || pipe_->holds_output(); }

 private:
  struct Hello {
    std::array<char, 8> magic = {'s', 'k', 't', 'c', 'p', '0', '1', '\n'};
    uint32_t from = 0, to = 0;
    std::array<std::byte, 32> nonce = {};
  };
  struct Answer {
    std::array<std::byte, 32> nonce = {};
    Mac proof = {};
  };
  enum class Next { kHello, kAnswer, kProof, kChoice, kNothing };

  Greeting(const MeetingKey& key, uint32_t own, uint32_t world_size, bool dials,
           std::unique_ptr<stream::Pipe> pipe)
      : key_(key), own_(own), world_size_(world_size), dials_(dials), pipe_(std::move(pipe)) {}
  template <typename T>
  void say(const T& words);
  template <typename T>
  Result<bool> hear(T& words);  // False: not whole yet.
  Result<Mac> proof(const char* of) const;
  Status hear_hello();
  Status hear_answer();
  void prove();
  Status send();
  Result<bool> step();

  const MeetingKey key_;
  const uint32_t own_, world_size_;
  const bool dials_;
  std::unique_ptr<stream::Pipe> pipe_;
  uint32_t peer_ = UINT32_MAX;
  Hello hello_;
  Answer answer_;
  Next next_ = Next::kHello;
  State state_ = State::kUnderWay;
  std::vector<std::byte> out_, in_;
  size_t out_at_ = 0;
};

}  // namespace sk::tcp

#endif  // SK_TRANSPORT_TCP_GREETING_H_
