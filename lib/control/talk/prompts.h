// Who waits for input, in which order, and which ranks' questions are one.
//
// Pure: questions, answers and the time go in, what to show and whom to answer comes out. One
// prompt is open at a time. Questions gather until every running rank of the cell has asked, or
// kPromptHoldNs; if all that gathered are the same they become one prompt, else one each, by rank.
#ifndef SK_LIB_CONTROL_TALK_PROMPTS_H_
#define SK_LIB_CONTROL_TALK_PROMPTS_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "lib/control/message.h"
#include "lib/control/rank_set.h"

namespace sk::control {

inline constexpr int64_t kPromptHoldNs = 1'000'000'000;

class Prompts {
 public:
  // `rank` of `cell` waits. A rank has one question; a new one takes the place of the old.
  void add(uint32_t rank, InputRequest request, int64_t now_ns);
  // `rank` waits no longer.
  void withdraw(uint32_t rank);
  void withdraw_all();

  // The ranks that get an answer to prompt `request`, with their own numbers; none when it is over.
  std::vector<std::pair<uint32_t, uint64_t>> answer(uint64_t request);

  // What to tell the session after any change. `running`: the ranks of the cell that are not done;
  // `target`: all that it runs on, whose prompt has no tag.
  std::vector<Event> settle(const std::set<uint32_t>& running, const RankSet& target,
                            int64_t now_ns);
  int64_t deadline_ns() const;

  // What `rank` waits to be told, and since when; null where it asks nothing.
  struct Asked {
    const std::string* prompt;
    int64_t since_ns;
  };
  std::optional<Asked> asked_by(uint32_t rank) const;

 private:
  struct Question {
    uint32_t rank;
    InputRequest request;
    int64_t since_ns;
  };
  using Group = std::vector<Question>;  // Asked as one; never empty in the queue.

  void release();
  Event describe(const RankSet& target) const;

  std::vector<Question> gathering_;
  int64_t gathering_since_ns_ = 0;
  std::deque<Group> queue_;
  std::optional<Group> open_;
  uint64_t open_request_ = 0;
  uint64_t ended_request_ = 0;  // Its end is still to be told.
  uint64_t last_request_ = 0;
};

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_TALK_PROMPTS_H_
