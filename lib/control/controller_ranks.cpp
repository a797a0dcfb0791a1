// What ranks say to the controller, and what they are asked beside cells.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/control/controller.h"

namespace sk::control {

void Controller::rank_ready(uint32_t rank, const Hello& hello, int64_t now_ns) {
  ranks_[rank].state = RankState::kReady;
  ranks_[rank].language = hello.language;
  if (ranks_[rank].incarnation > 0) tell_ranks({rank}, SK_RANK_READY, "");
  update_group();
  // One that comes while others are missing has heard of no group yet.
  if (!group_missing_.empty() && epoch_ > 0) agent_.send(rank, group_now());
  report_state();
  start_next(now_ns);
}

void Controller::rank_message(uint32_t rank, Message message, int64_t now_ns) {
  if (auto* output = std::get_if<Output>(&message))
    return on_output(rank, std::move(*output), now_ns);
  if (const auto* done = std::get_if<Done>(&message)) return on_done(rank, *done, now_ns);
  if (const auto* beat = std::get_if<Heartbeat>(&message)) return on_heartbeat(rank, *beat, now_ns);
  if (auto* reply = std::get_if<Reply>(&message)) return on_reply(rank, std::move(*reply));
  if (auto* input = std::get_if<InputRequest>(&message))
    return on_input_request(rank, std::move(*input), now_ns);
  if (auto* comm = std::get_if<Comm>(&message)) return on_rank_comm(rank, std::move(*comm));
  if (const auto* request = std::get_if<Regroup>(&message)) return on_regroup(*request);
  agent_.kill(rank, "broke the protocol: sent a message that is not for ranks to send");
}

void Controller::on_output(uint32_t rank, Output output, int64_t now_ns) {
  if (output.seq != 0) {  // 0: gathered by the agent, which does not number.
    Rank& r = ranks_[rank];
    if (output.seq != r.seq + 1)
      return agent_.kill(rank, fmt::format("broke the protocol: record {} came after record {}",
                                           output.seq, r.seq));
    r.seq += output.records.size();
  } else {
    output.cell = ranks_[rank].cell;
  }
  // Also after its end in the cell: a child's text may come a little late. A revived rank has not
  // been given the cell.
  const bool current =
      running_ && running_->request.cell == output.cell && ranks_[rank].cell == output.cell;
  for (Record& record : output.records) {
    logs_.add(output.cell, rank, record);
    if (current) {
      // Survivors that were interrupted because a rank died did not fail by themselves.
      auto* error = std::get_if<ErrorRecord>(&record.body);
      if (error != nullptr && running_->lost_a_rank && (error->flags & SK_ERROR_INTERRUPT) != 0)
        error->flags |= SK_ERROR_CONSEQUENCE;
      if (error != nullptr) note_failure(rank, *error, record.time_ns);
      running_->engine.add(rank, record, now_ns);
    } else if (comm_cells_.contains(output.cell) ||
               !std::holds_alternative<ErrorRecord>(record.body)) {
      // The error of a cell that went on without this rank is told already.
      show_late(rank, output.cell, record, now_ns);
    }
  }
}

// A thread beside the cells that is in no call any more: its rank will not come by it either.
void Controller::on_heartbeat(uint32_t rank, const Heartbeat& beat, int64_t now_ns) {
  if (beat.left) ranks_[rank].left_cell = beat.cell;
  if (beat.cell != 0) return;
  const bool lingered = std::exchange(ranks_[rank].lingers, beat.lingers);
  if (lingered && !beat.lingers && running_) tell_absent_soon(now_ns);
}

void Controller::on_done(uint32_t rank, const Done& done, int64_t now_ns) {
  Rank& r = ranks_[rank];
  if (done.seq_last != r.seq)
    return agent_.kill(rank,
                       fmt::format("broke the protocol: ended a cell at record {}, but sent {}",
                                   done.seq_last, r.seq));
  if (end_in_comm_cell(rank, done.cell)) return;
  if (r.state == RankState::kStuck && done.cell == r.cell) {
    r.state = RankState::kReady;
    r.cell_end_ns = now_ns;
    if (std::exchange(r.settles_until_ns, 0) == 0) tell_ranks({rank}, SK_RANK_READY, "");
    report_state();
    return start_next(now_ns);
  }
  if (!running_ || running_->request.cell != done.cell || running_->pending.erase(rank) == 0)
    return agent_.kill(
        rank, fmt::format("broke the protocol: ended cell {}, which it does not run", done.cell));
  r.cell_end_ns = now_ns;
  r.lingers = done.lingers;
  tell_absent_soon(now_ns);
  if (done.status == SK_CELL_ERROR) running_->failed = true;
  running_->times.push_back({rank, done.wall_ns, done.cpu_ns});
  if (rank == running_->target.front()) running_->reply = done.reply;
  running_->engine.end_rank(rank);
  prompts_.withdraw(rank);
  settle_prompts(now_ns);
  forget_heard(rank, now_ns);
  finish_cell_if_done(now_ns);
}

void Controller::rank_dead(uint32_t rank, const std::string& cause, int64_t now_ns) {
  ranks_[rank].state = RankState::kDead;
  ranks_[rank].dead_cause = cause;
  ranks_[rank].cell_end_ns = now_ns;
  ranks_[rank].settles_until_ns = 0;
  if (!ending_) tell_ranks({rank}, SK_RANK_DEAD, cause);
  update_group();
  forget_stacks_of(rank);
  for (auto it = questions_.begin(); it != questions_.end();) {
    if (it->second.rank != rank) {
      ++it;
      continue;
    }
    refuse_question(it->first, SK_ERR_PEER_LOST, fmt::format("rank {} died: {}", rank, cause));
    it = questions_.erase(it);
  }
  const bool in_cell = running_ && running_->pending.erase(rank) != 0;
  forget_talk_of(rank, now_ns);
  if (in_cell) {
    ranks_[rank].told = true;
    const CauseOfDeath why = split_cause(cause);
    ErrorRecord died = failure("RankDied", fmt::format("rank {}: {}", rank, why.sentence));
    died.traceback.insert(died.traceback.end(), why.crash.begin(), why.crash.end());
    if (!why.crash.empty()) running_->engine.drop_stderr_from(rank, why.crash.front(), now_ns);
    running_->failures.push_back({rank, {now_ns, std::move(died)}});
    running_->engine.end_rank(rank);
    running_->lost_a_rank = true;
    if (running_->interrupts == 0 || !running_->heard.empty()) interrupt_pending(false, now_ns);
    finish_cell_if_done(now_ns);
  }
  report_state();
  start_next(now_ns);
}

}  // namespace sk::control
