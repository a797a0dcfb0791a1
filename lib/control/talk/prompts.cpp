#include "lib/control/talk/prompts.h"

#include <algorithm>

#include "lib/control/text.h"

namespace sk::control {
namespace {

template <typename Questions>
void erase_rank(Questions& questions, uint32_t rank) {
  std::erase_if(questions, [&](const auto& question) { return question.rank == rank; });
}

}  // namespace

void Prompts::add(uint32_t rank, InputRequest request, int64_t now_ns) {
  withdraw(rank);
  if (gathering_.empty()) gathering_since_ns_ = now_ns;
  gathering_.push_back({rank, std::move(request), now_ns});
}

void Prompts::withdraw(uint32_t rank) {
  erase_rank(gathering_, rank);
  for (Group& group : queue_) erase_rank(group, rank);
  std::erase_if(queue_, [](const Group& group) { return group.empty(); });
  if (!open_) return;
  erase_rank(*open_, rank);
  if (!open_->empty()) return;
  open_.reset();
  ended_request_ = std::exchange(open_request_, 0);
}

void Prompts::withdraw_all() {
  gathering_.clear();
  queue_.clear();
  if (!open_) return;
  open_.reset();
  ended_request_ = std::exchange(open_request_, 0);
}

std::vector<std::pair<uint32_t, uint64_t>> Prompts::answer(uint64_t request) {
  std::vector<std::pair<uint32_t, uint64_t>> answered;
  if (!open_ || request != open_request_) return answered;
  for (const Question& question : *open_)
    answered.emplace_back(question.rank, question.request.request);
  open_.reset();
  open_request_ = 0;
  return answered;
}

// Queues what gathered: as one if it is all the same, else one by one.
void Prompts::release() {
  std::sort(gathering_.begin(), gathering_.end(),
            [](const Question& a, const Question& b) { return a.rank < b.rank; });
  const InputRequest& first = gathering_.front().request;
  const bool same =
      std::all_of(gathering_.begin(), gathering_.end(), [&](const Question& question) {
        return question.request.prompt == first.prompt && question.request.cell == first.cell &&
               question.request.password == first.password;
      });
  if (same)
    queue_.push_back(std::move(gathering_));
  else
    for (Question& question : gathering_) queue_.push_back({std::move(question)});
  gathering_.clear();
}

std::vector<Event> Prompts::settle(const std::set<uint32_t>& running, const RankSet& target,
                                   int64_t now_ns) {
  std::vector<Event> events;
  if (ended_request_ != 0) {
    Event end;
    end.kind = SK_EVENT_INPUT_END;
    end.reply.request = std::exchange(ended_request_, 0);
    events.push_back(std::move(end));
  }
  if (open_) return events;
  if (queue_.empty() && !gathering_.empty()) {
    const bool all_asked = gathering_.size() >= running.size();
    if (all_asked || now_ns >= gathering_since_ns_ + kPromptHoldNs) release();
  }
  if (queue_.empty()) return events;
  open_ = std::move(queue_.front());
  queue_.pop_front();
  open_request_ = ++last_request_;
  events.push_back(describe(target));
  return events;
}

Event Prompts::describe(const RankSet& target) const {
  RankSet ranks;
  for (const Question& question : *open_) ranks.push_back(question.rank);
  Event event;
  event.kind = SK_EVENT_INPUT;
  event.cell = open_->front().request.cell;
  event.ranks = format_ranks(ranks);
  event.all_ranks = ranks == target;
  event.reply.request = open_request_;
  event.reply.answer = open_->front().request.password ? 1 : 0;
  const std::string prompt = utf8_clean(open_->front().request.prompt);
  event.text = event.all_ranks ? prompt : "[" + event.ranks + "] " + prompt;
  return event;
}

std::optional<Prompts::Asked> Prompts::asked_by(uint32_t rank) const {
  std::optional<Asked> found;
  const auto look_in = [&](const Group& group) {
    for (const Question& question : group)
      if (question.rank == rank) found = {&question.request.prompt, question.since_ns};
  };
  look_in(gathering_);
  for (const Group& group : queue_) look_in(group);
  if (open_) look_in(*open_);
  return found;
}

// While one is open or queued, those that gather wait for it: ranks that were asked one by one may
// meet again in the same question.
int64_t Prompts::deadline_ns() const {
  if (gathering_.empty() || open_ || !queue_.empty()) return INT64_MAX;
  return gathering_since_ns_ + kPromptHoldNs;
}

}  // namespace sk::control
