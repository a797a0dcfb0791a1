// Input, comms, and the questions beside cells.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/control/controller.h"

namespace sk::control {

// ---- input ------------------------------------------------------------------------------------

void Controller::on_input_request(uint32_t rank, InputRequest request, int64_t now_ns) {
  if (request.withdrawn) {
    prompts_.withdraw(rank);
    return settle_prompts(now_ns);
  }
  InputReply refusal{request.request, SK_INPUT_REFUSED, ""};
  if (!running_ || running_->request.cell != request.cell || !running_->pending.contains(rank))
    refusal.text = "there is nobody to ask: no cell is running on this rank";
  else if (!running_->request.allow_input)
    refusal.text = "there is nobody to ask: whoever sent this cell takes no input requests";
  else if (running_->lost_a_rank || request.interrupts < running_->interrupts)
    refusal.text = "there is nobody to ask: the cell was interrupted";
  if (!refusal.text.empty()) return agent_.send(rank, refusal);
  hear(rank, now_ns);
  prompts_.add(rank, std::move(request), now_ns);
  settle_prompts(now_ns);
}

void Controller::on_input_reply(const InputReply& reply, int64_t now_ns) {
  const auto answered = prompts_.answer(reply.request);
  for (const auto& [rank, request] : answered)
    agent_.send(rank, InputReply{request, reply.state, reply.text});
  if (running_ && !answered.empty()) running_->presses_answered = running_->presses;
  settle_prompts(now_ns);
}

void Controller::settle_prompts(int64_t now_ns) {
  static const std::set<uint32_t> nobody;
  const auto& running = running_ ? running_->pending : nobody;
  for (Event& event : prompts_.settle(running, running_ ? running_->target : RankSet{}, now_ns))
    emit(std::move(event));
}

// ---- comms ------------------------------------------------------------------------------------

void Controller::on_session_comm(const Comm& message, int64_t now_ns) {
  RankSet live;
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank)
    if (ranks_[rank].state == RankState::kReady || ranks_[rank].state == RankState::kStuck)
      live.push_back(rank);
  const auto receivers = comms_.from_session(message, live);
  if (receivers.empty() && message.kind != SK_COMM_CLOSE) {
    Comm closed;
    closed.kind = SK_COMM_CLOSE;
    closed.id = message.id;
    closed.data = R"({"error":"no rank has this comm"})";
    emit_comm("", std::move(closed), message.cell);
  }
  for (const auto& [rank, inside] : receivers)
    if (!in_comm_cell(rank)) ranks_[rank].comm_start_ns = now_ns;
  std::set<uint32_t>& pending = comm_cells_[message.cell];
  for (const auto& [rank, inside] : receivers) {
    pending.insert(rank);
    agent_.send(rank, inside);
  }
  last_cell_ = std::max(last_cell_, message.cell);
  finish_comm_cell(message.cell);
}

void Controller::on_rank_comm(uint32_t rank, Comm message) {
  const uint64_t cell = message.cell;
  auto outside = comms_.from_rank(rank, std::move(message));
  if (outside) emit_comm(std::to_string(rank), std::move(*outside), cell);
}

void Controller::emit_comm(std::string ranks, Comm message, uint64_t cell) {
  Event event;
  event.kind = SK_EVENT_COMM;
  event.cell = cell;
  event.ranks = std::move(ranks);
  event.comm = std::move(message);
  emit(std::move(event));
}

void Controller::finish_comm_cell(uint64_t cell) {
  const auto found = comm_cells_.find(cell);
  if (found == comm_cells_.end() || !found->second.empty()) return;
  comm_cells_.erase(found);
  flush_late();  // What the handlers put out.
  Event done;
  done.kind = SK_EVENT_CELL_DONE;
  done.cell = cell;
  done.status = SK_CELL_OK;
  emit(std::move(done));
}

bool Controller::end_in_comm_cell(uint32_t rank, uint64_t cell) {
  const auto found = comm_cells_.find(cell);
  if (found == comm_cells_.end() || found->second.erase(rank) == 0) return false;
  finish_comm_cell(cell);
  return true;
}

bool Controller::in_comm_cell(uint32_t rank) const {
  return std::any_of(comm_cells_.begin(), comm_cells_.end(),
                     [&](const auto& cell) { return cell.second.contains(rank); });
}

void Controller::interrupt_comm_cells() {
  for (const auto& [cell, pending] : comm_cells_)
    for (uint32_t rank : pending) agent_.send(rank, Interrupt{cell, 0});
}

// What a dead rank leaves behind of all this.
void Controller::forget_talk_of(uint32_t rank, int64_t now_ns) {
  prompts_.withdraw(rank);
  settle_prompts(now_ns);
  for (Comm& closed : comms_.forget(rank)) {
    closed.data = fmt::format(R"({{"error":"rank {} died"}})", rank);
    emit_comm(std::to_string(rank), std::move(closed), 0);
  }
  std::vector<uint64_t> cells;
  for (const auto& [cell, pending] : comm_cells_)
    if (pending.contains(rank)) cells.push_back(cell);
  for (uint64_t cell : cells) end_in_comm_cell(rank, cell);
}

// ---- questions --------------------------------------------------------------------------------

// The lowest idle rank answers; if all are busy, the I/O thread of the lowest, from the names that
// its language had after the last cell.
void Controller::on_ask(Ask ask, int64_t now_ns) {
  if (ask.kind == kAskStatus) return on_status(ask, now_ns);
  if (ask.kind == kAskRevive) return on_revive(ask, now_ns);
  if (ask.kind == kAskStack) return on_ask_stack(ask, now_ns);
  std::optional<uint32_t> idle, busy;
  for (uint32_t rank = 0; rank < ranks_.size() && !idle; ++rank) {
    const RankState state = ranks_[rank].state;
    if (state == RankState::kStarting || state == RankState::kDead) continue;
    const bool works = (running_ && running_->pending.contains(rank)) || in_comm_cell(rank) ||
                       state == RankState::kStuck;
    if (works && !busy) busy = rank;
    if (!works) idle = rank;
  }
  if (!idle && !busy)
    return refuse_question(ask.request, SK_ERR_BUSY, "no rank is there to answer");
  ask.snapshot = !idle;
  const uint32_t rank = idle ? *idle : *busy;
  questions_[ask.request] = {rank, now_ns + timers_.answer_ns, now_ns + timers_.snapshot_ns, ask};
  if (ask.snapshot) questions_[ask.request].snapshot_at_ns = INT64_MAX;
  agent_.send(rank, std::move(ask));
}

void Controller::on_reply(uint32_t rank, Reply reply) {
  if (stack_questions_.contains(reply.request)) return on_stack(rank, reply);
  const auto question = questions_.find(reply.request);
  if (question == questions_.end() || question->second.rank != rank) return;  // Too late.
  questions_.erase(question);
  answer(std::move(reply));
}

// An idle rank may still be slow: its own threads hold the language. Then its I/O thread is asked.
void Controller::look_after_questions(int64_t now_ns) {
  for (auto it = questions_.begin(); it != questions_.end();) {
    Question& question = it->second;
    if (now_ns >= question.until_ns) {
      refuse_question(it->first, SK_ERR_TIMEOUT,
                      fmt::format("rank {} did not answer", question.rank));
      it = questions_.erase(it);
      continue;
    }
    if (now_ns >= question.snapshot_at_ns) {
      question.snapshot_at_ns = INT64_MAX;
      question.ask.snapshot = true;
      agent_.send(question.rank, question.ask);
    }
    ++it;
  }
}

void Controller::refuse_question(uint64_t request, int32_t status, std::string why) {
  Reply reply;
  reply.request = request;
  reply.status = status;
  reply.text = std::move(why);
  answer(std::move(reply));
}

void Controller::answer(Reply reply) {
  Event event;
  event.kind = SK_EVENT_REPLY;
  event.status = reply.status;
  event.text = std::exchange(reply.text, {});
  event.reply = std::move(reply);
  emit(std::move(event));
}

}  // namespace sk::control
