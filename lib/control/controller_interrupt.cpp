// Interrupts, level by level: ask, ask again, find out where the rest is, go on without it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/control/controller.h"

namespace sk::control {
namespace {

constexpr uint32_t kPressesToGiveUp = 3;

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
        agent_.send(rank, Interrupt{ranks_[rank].cell, 1});
    return;
  }
  if (++running_->presses >= kPressesToGiveUp) return give_up_on_pending(now_ns);
  interrupt_pending(now_ns);
}

void Controller::interrupt_pending(int64_t now_ns) {
  if (running_->interrupts == 0) running_->interrupted_ns = now_ns;
  const Interrupt interrupt{running_->request.cell, std::min(running_->interrupts, 1u)};
  ++running_->interrupts;
  for (uint32_t rank : running_->pending) agent_.send(rank, interrupt);
  prompts_.withdraw_all();
  settle_prompts(now_ns);
}

// When the cell ends without the ranks that do not answer.
int64_t Controller::give_up_time() const {
  return running_->interrupted_ns +
         (running_->lost_a_rank ? timers_.death_grace_ns : timers_.give_up_ns);
}

void Controller::watch_interrupt(int64_t now_ns) {
  if (!running_ || running_->interrupts == 0) return;
  if (now_ns >= give_up_time()) return give_up_on_pending(now_ns);
  const int64_t since_ns = now_ns - running_->interrupted_ns;
  if (running_->interrupts == 1 && since_ns >= timers_.give_up_ns / 3) interrupt_pending(now_ns);
  if (!running_->asked_where && since_ns >= timers_.give_up_ns / 3 * 2) ask_where(now_ns);
}

int64_t Controller::interrupt_deadline() const {
  if (running_->interrupts == 0) return INT64_MAX;
  int64_t deadline = give_up_time();
  if (running_->interrupts == 1)
    deadline = std::min(deadline, running_->interrupted_ns + timers_.give_up_ns / 3);
  if (!running_->asked_where)
    deadline = std::min(deadline, running_->interrupted_ns + timers_.give_up_ns / 3 * 2);
  return deadline;
}

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
  if (!where.empty()) sentence += ", stuck in " + where;
  sentence += "; it goes on in the background";
  if (!finished.empty()) sentence += fmt::format(" ({} finished)", name_ranks(finished));
  return sentence;
}

void Controller::give_up_on_pending(int64_t now_ns) {
  if (stack_questions_.contains(kOwnQuestion)) end_stack_question(kOwnQuestion);
  const RankSet stuck(running_->pending.begin(), running_->pending.end());
  if (running_->lost_a_rank) return let_settle(stuck, now_ns);
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
  running_->pending.clear();
  finish_cell_if_done(now_ns);
}

// ---- survivors of a death ---------------------------------------------------------------------

// The cell ends at once, with the death; a survivor that only takes a moment to end is not stuck.
void Controller::let_settle(const RankSet& ranks, int64_t now_ns) {
  for (uint32_t rank : ranks) {
    Rank& r = ranks_[rank];
    r.state = RankState::kStuck;
    r.settles_until_ns = running_->interrupted_ns + timers_.give_up_ns;
    r.asked_twice = running_->interrupts > 1;
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
    if (now_ns >= r.settles_until_ns) {
      r.settles_until_ns = 0;
      stuck.push_back(rank);
    } else if (!r.asked_twice && now_ns >= r.settles_until_ns - timers_.give_up_ns / 3 * 2) {
      r.asked_twice = true;
      agent_.send(rank, Interrupt{r.cell, 1});
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
