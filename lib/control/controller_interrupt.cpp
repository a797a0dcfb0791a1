// Interrupts, level by level: ask, ask again, find out where the rest is, go on without it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/control/controller.h"

namespace sk::control {
namespace {

constexpr uint32_t kPressesToGiveUp = 3;
// A rank that is about to end its cell is waited for so many times as long as one that is not.
constexpr int64_t kEndingShare = 4;

}  // namespace

void Controller::on_interrupt(int64_t now_ns) {
  // The first that waits for the ranks is the one that its reader takes to be running.
  if (!running_ && !queue_.empty()) {
    const Execute first = std::move(queue_.front());
    queue_.pop_front();
    refuse_cell(first, "KeyboardInterrupt", "interrupted before the ranks were ready");
  }
  drop_queue();
  interrupt_comm_cells();
  if (!running_) {
    // Those that are still stuck in an earlier cell may hear it this time.
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank)
      if (ranks_[rank].state == RankState::kStuck)
        agent_.send(rank, Interrupt{ranks_[rank].cell, 2});
    return;
  }
  press(now_ns);
}

// One cell, and no other: those behind it belong to somebody else.
void Controller::on_cancel(uint64_t cell, int64_t now_ns) {
  if (running_ && running_->request.cell == cell) return press(now_ns);
  const auto found = std::find_if(queue_.begin(), queue_.end(),
                                  [&](const Execute& request) { return request.cell == cell; });
  if (found == queue_.end()) return;  // It has ended, which crosses with this.
  queue_.erase(found);
  abort_cell(cell);
  start_next(now_ns);  // It may have been the one that waits for ranks.
}

void Controller::press(int64_t now_ns) {
  interrupt_pending(true, now_ns);
  if (++running_->presses - running_->presses_answered < kPressesToGiveUp) return;
  RankSet stuck;
  for (uint32_t rank : running_->pending)
    if (!has_left(rank)) stuck.push_back(rank);
  give_up_on(stuck, now_ns);
}

// A rank that writes out its error is left alone, unless its reader has no patience for that.
void Controller::interrupt_pending(bool by_user, int64_t now_ns) {
  if (running_->interrupts == 0 || !running_->heard.empty())
    begin_interrupt(now_ns);
  else
    running_->repeated = true;
  ++running_->interrupts;
  for (uint32_t rank : running_->pending)
    if (by_user || !has_left(rank)) agent_.send(rank, Interrupt{running_->request.cell, 0});
  prompts_.withdraw_all();  // All that are open were asked before it.
  settle_prompts(now_ns);
}

void Controller::repeat_interrupt() {
  running_->repeated = true;
  for (uint32_t rank : running_->pending)
    if (!has_left(rank) && !running_->heard.contains(rank))
      agent_.send(rank, Interrupt{running_->request.cell, 1});
}

// From here on the time runs within which ranks are to end the cell.
void Controller::begin_interrupt(int64_t now_ns) {
  running_->heard.clear();
  running_->interrupted_ns = now_ns;
  running_->judge_ns = 0;
  running_->repeated = running_->asked_where = false;
}

// The code of a rank has heard the interrupt and asks its user what to do, or has done so: the cell
// goes on, with ranks that may wait for that one, until it is interrupted again.
bool Controller::is_answered() const { return !running_->heard.empty() && !running_->lost_a_rank; }

void Controller::hear(uint32_t rank, int64_t now_ns) {
  if (running_->interrupts == 0) return;
  running_->heard.insert(rank);
  tell_absent_soon(now_ns);
}

// It has ended the cell: those that have asked nothing are to end it, too.
void Controller::forget_heard(uint32_t rank, int64_t now_ns) {
  if (running_->heard.erase(rank) == 0 || !running_->heard.empty()) return;
  begin_interrupt(now_ns);
}

// When the cell ends without the ranks that do not answer,
int64_t Controller::give_up_time() const {
  if (is_answered()) return INT64_MAX;
  const int64_t time_ns = running_->interrupted_ns +
                          (running_->lost_a_rank ? timers_.death_grace_ns : timers_.give_up_ns);
  return std::max(time_ns, running_->judge_ns);
}

// and without those that have answered but do not end it.
int64_t Controller::last_moment() const {
  return running_->interrupted_ns + kEndingShare * timers_.give_up_ns;
}

// It has left the code of its cell, and writes out what that ended with.
bool Controller::has_left(uint32_t rank) const {
  return ranks_[rank].cell != 0 && ranks_[rank].left_cell == ranks_[rank].cell;
}

// Or it has said something that is not read yet: behind a flood of output, that it ended.
bool Controller::is_ending(uint32_t rank) const {
  return has_left(rank) || ports_.has_unread(rank);
}

void Controller::watch_interrupt(int64_t now_ns) {
  if (!running_ || running_->interrupts == 0) return;
  if (now_ns >= give_up_time()) return judge_pending(now_ns);
  const int64_t since_ns = now_ns - running_->interrupted_ns;
  if (!running_->repeated && since_ns >= timers_.give_up_ns / 3) repeat_interrupt();
  if (asks_where() && since_ns >= timers_.give_up_ns / 3 * 2) ask_where(now_ns);
}

int64_t Controller::interrupt_deadline() const {
  if (running_->interrupts == 0) return INT64_MAX;
  int64_t deadline = give_up_time();
  if (!running_->repeated)
    deadline = std::min(deadline, running_->interrupted_ns + timers_.give_up_ns / 3);
  if (asks_where())
    deadline = std::min(deadline, running_->interrupted_ns + timers_.give_up_ns / 3 * 2);
  return deadline;
}

bool Controller::asks_where() const { return !running_->asked_where && !is_answered(); }

void Controller::ask_where(int64_t now_ns) {
  running_->asked_where = true;
  const std::set<uint32_t> asked = running_->pending;
  stack_questions_[kOwnQuestion] = {asked, {}, now_ns + timers_.give_up_ns / 3};
  for (uint32_t rank : asked) agent_.send(rank, Ask{kOwnQuestion, kAskStack, "", 0, 0});
}

std::string Controller::stuck_sentence(uint32_t rank) const {
  const auto stack = running_->stacks.find(rank);
  const std::string where = stack == running_->stacks.end() ? "" : innermost(stack->second);
  RankSet finished;
  std::set_difference(running_->target.begin(), running_->target.end(), running_->pending.begin(),
                      running_->pending.end(), std::back_inserter(finished));
  std::string sentence = "did not stop when interrupted";
  if (!where.empty())
    sentence +=
        (where.front() == '`' || where.starts_with("compiled") ? ", stuck in " : ", stuck at ") +
        where;
  sentence += "; it goes on in the background";
  if (!finished.empty()) sentence += fmt::format(" ({} finished)", name_ranks(finished));
  return sentence;
}

// Those that are about to end the cell are looked at again, until the last moment.
void Controller::judge_pending(int64_t now_ns) {
  if (running_->lost_a_rank)
    return let_settle({running_->pending.begin(), running_->pending.end()}, now_ns);
  RankSet stuck;
  for (uint32_t rank : running_->pending)
    if (now_ns >= last_moment() || !is_ending(rank)) stuck.push_back(rank);
  running_->judge_ns = std::min(now_ns + timers_.give_up_ns / 3, last_moment());
  give_up_on(stuck, now_ns);
}

void Controller::give_up_on(const RankSet& stuck, int64_t now_ns) {
  if (stuck.empty()) return;
  if (stack_questions_.contains(kOwnQuestion)) end_stack_question(kOwnQuestion);
  std::map<std::string, RankSet> groups;
  for (uint32_t rank : stuck) {
    const std::string why = stuck_sentence(rank);
    groups[why].push_back(rank);
    ranks_[rank].state = RankState::kStuck;
    ranks_[rank].dead_cause = why;
    ErrorRecord error = failure("KeyboardInterrupt", why);
    error.flags = SK_ERROR_INTERRUPT;
    running_->failures.push_back({rank, {now_ns, std::move(error)}});
  }
  for (const auto& [why, ranks] : groups) tell_ranks(ranks, SK_RANK_STUCK, why);
  for (uint32_t rank : stuck) running_->pending.erase(rank);
  report_state();
  finish_cell_if_done(now_ns);
}

// ---- survivors of a death ---------------------------------------------------------------------

// The cell ends at once, with the death; a survivor that only takes a moment to end is not stuck.
void Controller::let_settle(const RankSet& ranks, int64_t now_ns) {
  for (uint32_t rank : ranks) {
    Rank& r = ranks_[rank];
    r.state = RankState::kStuck;
    r.settles_until_ns = running_->interrupted_ns + timers_.give_up_ns;
    r.settles_at_most_ns = last_moment();
    r.asked_twice = running_->repeated;
    r.dead_cause = "did not stop when another rank died; it goes on in the background";
    ErrorRecord error = failure("KeyboardInterrupt", "interrupted because another rank died");
    error.flags = SK_ERROR_INTERRUPT | SK_ERROR_CONSEQUENCE;
    running_->failures.push_back({rank, {now_ns, std::move(error)}});
  }
  running_->pending.clear();
  finish_cell_if_done(now_ns);
}

void Controller::watch_settling(int64_t now_ns) {
  RankSet stuck;
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    Rank& r = ranks_[rank];
    if (r.settles_until_ns == 0) continue;
    if (now_ns >= r.settles_until_ns && now_ns < r.settles_at_most_ns && is_ending(rank)) {
      r.settles_until_ns = std::min(now_ns + timers_.give_up_ns / 3, r.settles_at_most_ns);
    } else if (now_ns >= r.settles_until_ns) {
      r.settles_until_ns = 0;
      stuck.push_back(rank);
    } else if (!r.asked_twice && now_ns >= r.settles_until_ns - timers_.give_up_ns / 3 * 2) {
      r.asked_twice = true;
      if (!has_left(rank)) agent_.send(rank, Interrupt{r.cell, 1});
    }
  }
  if (stuck.empty()) return;
  tell_ranks(stuck, SK_RANK_STUCK, ranks_[stuck[0]].dead_cause);
  report_state();
  start_next(now_ns);
}

int64_t Controller::settle_deadline() const {
  int64_t deadline = INT64_MAX;
  for (const Rank& r : ranks_) {
    if (r.settles_until_ns == 0) continue;
    deadline = std::min(deadline, r.asked_twice ? r.settles_until_ns
                                                : r.settles_until_ns - timers_.give_up_ns / 3 * 2);
  }
  return deadline;
}

// ---- stacks -----------------------------------------------------------------------------------

void Controller::on_ask_stack(const Ask& ask, int64_t now_ns) {
  auto target = choose_ranks(ask.code, ranks_now());
  if (!target.ok())
    return refuse_question(ask.request, target.status().code(), target.status().message());
  StackQuestion question{{}, {}, now_ns + timers_.stack_ns};
  for (uint32_t rank : *target)
    if (ranks_[rank].state == RankState::kReady || ranks_[rank].state == RankState::kStuck)
      question.waiting.insert(rank);
  if (question.waiting.empty()) {
    const std::string why = why_not(*target);
    return refuse_question(ask.request, SK_ERR_PEER_LOST,
                           "no stack: " + (why.empty() ? "the ranks are coming up" : why));
  }
  const std::set<uint32_t> asked = question.waiting;
  stack_questions_[ask.request] = std::move(question);
  for (uint32_t rank : asked) agent_.send(rank, Ask{ask.request, kAskStack, "", 0, 0});
}

void Controller::on_stack(uint32_t rank, const Reply& reply) {
  const auto found = stack_questions_.find(reply.request);
  if (found == stack_questions_.end() || found->second.waiting.erase(rank) == 0) return;
  RankStack stack;
  stack.idle = reply.answer == 1;
  if (!reply.strings.empty()) stack.native = reply.strings[0];
  if (reply.strings.size() > 1) stack.language = clean_language_stack(reply.strings[1]);
  found->second.stacks[rank] = std::move(stack);
  if (found->second.waiting.empty()) end_stack_question(reply.request);
}

void Controller::forget_stacks_of(uint32_t rank) {
  std::vector<uint64_t> complete;
  for (auto& [request, question] : stack_questions_)
    if (question.waiting.erase(rank) != 0 && question.waiting.empty()) complete.push_back(request);
  for (const uint64_t request : complete) end_stack_question(request);
}

void Controller::end_stack_question(uint64_t request) {
  const StackQuestion question = std::move(stack_questions_[request]);
  stack_questions_.erase(request);
  if (request == kOwnQuestion) {
    if (running_) running_->stacks = question.stacks;
    return;
  }
  Reply reply;
  reply.request = request;
  const RankSet silent(question.waiting.begin(), question.waiting.end());
  reply.text = merge_stacks(question.stacks, silent);
  answer(std::move(reply));
}

}  // namespace sk::control
