#include "lib/control/controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/control/text.h"

namespace sk::control {
namespace {

constexpr const char* kTemplateNote = "template";

}  // namespace

Controller::Controller(ControllerPorts& ports, ControllerTimers timers, Job job)
    : ports_(ports),
      timers_(timers),
      job_(std::move(job)),
      agent_(ports, *this, timers.agent),
      logs_(ports.log_chunks(), LogLimits{}) {}

void Controller::emit(Event event) {
  if (attachable_) journal_.add(event, attached_);
  if (event.kind == SK_EVENT_INPUT) open_input_ = event;
  if (event.kind == SK_EVENT_INPUT_END) open_input_ = Event{};
  send_now(std::move(event));
}

void Controller::send_now(Event event) {
  event.seq = ++event_seq_;
  ports_.send_event(event);
}

void Controller::on_session_message(Message message, int64_t now_ns) {
  if (const auto* open = std::get_if<Open>(&message)) return on_open(*open, now_ns);
  if (!opened_ || ending_) return;
  if (auto* execute = std::get_if<Execute>(&message))
    return on_execute(std::move(*execute), now_ns);
  if (const auto* interrupt = std::get_if<Interrupt>(&message))
    return interrupt->cell == 0 ? on_interrupt(now_ns) : on_cancel(interrupt->cell, now_ns);
  if (auto* ask = std::get_if<Ask>(&message)) return on_ask(std::move(*ask), now_ns);
  if (const auto* reply = std::get_if<InputReply>(&message)) return on_input_reply(*reply, now_ns);
  if (const auto* comm = std::get_if<Comm>(&message)) return on_session_comm(*comm, now_ns);
  if (const auto* settings = std::get_if<Configure>(&message)) return on_configure(*settings);
  if (const auto* request = std::get_if<LogRequest>(&message)) return on_log_request(*request);
  if (const auto* ack = std::get_if<Ack>(&message)) return journal_.acknowledge(ack->cell);
  if (auto* note = std::get_if<Note>(&message))
    return attachable_ ? notes_.take(std::move(*note)) : void();
  if (std::holds_alternative<Shutdown>(message)) return end(now_ns);
}

void Controller::on_open(const Open& open, int64_t now_ns) {
  if (opened_) return;
  opened_ = true;
  lease_ns_ = static_cast<int64_t>(open.lease_ms) * 1'000'000;
  notebook_ = open.notebook;
  attachable_ = !open.name.empty() && lease_ns_ > 0;
  if (open.interrupt_ms > 0)
    timers_.give_up_ns = static_cast<int64_t>(open.interrupt_ms) * 1'000'000;
  ranks_.resize(open.ranks);
  report_state();
  agent_.set_start_timeout(static_cast<int64_t>(open.start_timeout_ms) * 1'000'000);
  agent_.start(open, job_, now_ns);
}

void Controller::on_session_lost(int64_t now_ns) {
  if (lease_ns_ == 0 || !opened_) return end(now_ns);
  lease_until_ns_ = now_ns + lease_ns_;
  attached_ = false;
}

void Controller::on_nobody_left(int64_t now_ns) {
  if (!attached_) end(now_ns);
}

void Controller::on_session_attached(int64_t now_ns) {
  lease_until_ns_ = INT64_MAX;
  attached_ = true;
  Event state;
  state.kind = SK_EVENT_STATUS;
  state.status = reported_state_;
  state.tag = last_tag_;
  send_now(state);
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    const Rank& r = ranks_[rank];
    if (r.state != RankState::kDead && r.state != RankState::kStuck) continue;
    Event event;
    event.kind = SK_EVENT_RANK;
    event.ranks = std::to_string(rank);
    event.status = r.state == RankState::kDead ? SK_RANK_DEAD : SK_RANK_STUCK;
    event.text = r.dead_cause;
    send_now(std::move(event));
  }
  for (Event& event : notes_.replay()) send_now(std::move(event));
  for (Event& event : journal_.replay()) send_now(std::move(event));
  if (open_input_.kind == SK_EVENT_INPUT) send_now(open_input_);
  // A cell that runs has begun without them, and its communicators are not disturbed.
  if (const RankSet lost = lost_ranks(); !lost.empty() && !running_ && !ending_)
    begin_again(
        lost,
        fmt::format("{} {} lost, and {} been started again: without the variables of before",
                    name_ranks(lost), lost.size() == 1 ? "was" : "were",
                    lost.size() == 1 ? "has" : "have"),
        now_ns);
  state.status = reported_state_;
  state.tag.clear();
  send_now(std::move(state));  // So that it knows where the past ends.
}

// The last one is there for a front end that comes later, too.
void Controller::on_template_note(std::string text, int64_t now_ns) {
  agent_.on_template_note(now_ns);
  Event event;
  event.kind = SK_EVENT_NOTE;
  event.tag = kTemplateNote;
  event.text = text;
  if (attachable_) notes_.take({kTemplateNote, std::move(text)});
  if (attached_) send_now(std::move(event));
}

void Controller::end(int64_t now_ns) {
  if (ending_) return;
  ending_ = true;
  drop_queue();
  agent_.shut_down(now_ns);
  report_state();
}

void Controller::report_state() {
  int32_t state = SK_SESSION_READY;
  if (!lost_ranks().empty()) state = SK_SESSION_DEGRADED;
  if (std::any_of(ranks_.begin(), ranks_.end(),
                  [](const Rank& r) { return r.state == RankState::kStarting; }))
    state = SK_SESSION_STARTING;
  if (over()) state = SK_SESSION_OVER;
  if (ending_ && !over()) return;
  if (state == reported_state_) return;
  reported_state_ = state;
  Event event;
  event.kind = SK_EVENT_STATUS;
  event.status = state;
  if (state == SK_SESSION_DEGRADED) event.text = why_not(all_ranks(ranks_.size()));
  emit(std::move(event));
}

// ---- cells ------------------------------------------------------------------------------------

void Controller::on_execute(Execute request, int64_t now_ns) {
  if (attachable_) journal_.begin(request.cell, request.tag);
  last_cell_ = std::max(last_cell_, request.cell);
  if (!request.tag.empty()) last_tag_ = request.tag;
  queue_.push_back(std::move(request));
  start_next(now_ns);
}

void Controller::start_next(int64_t now_ns) {
  while (!running_ && !queue_.empty() && !ending_) {
    auto target = choose_ranks(queue_.front().ranks, ranks_now());
    if (must_wait(target)) return;
    Execute request = std::move(queue_.front());
    queue_.pop_front();
    if (!target.ok()) {
      refuse_cell(request, "RankUnavailable", target.status().message());
    } else if (const std::string why = why_not(*target); !why.empty()) {
      refuse_cell(request, "RankUnavailable", why + way_out());
      for (uint32_t rank : *target) ranks_[rank].told = true;
    } else {
      start_cell(std::move(request), std::move(*target), now_ns);
    }
  }
}

Ranks Controller::ranks_now() const {
  Ranks now{static_cast<uint32_t>(ranks_.size()), {}, job_.host};
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank)
    if (ranks_[rank].state == RankState::kReady) now.alive.push_back(rank);
  return now;
}

void Controller::start_cell(Execute request, RankSet target, int64_t now_ns) {
  flush_late();  // It belongs above.
  start_log(request, target);
  const MergeOptions options{.style = style_of(request)};
  running_ = std::make_unique<Running>(Running{.request = std::move(request),
                                               .target = target,
                                               .pending = {target.begin(), target.end()},
                                               .engine = MergeEngine(target, options),
                                               .failures = {},
                                               .times = {},
                                               .reply = {}});
  Event event;
  event.kind = SK_EVENT_CELL_START;
  event.cell = running_->request.cell;
  event.tag = running_->request.tag;
  event.ranks = format_ranks(target);
  event.all_ranks = true;
  emit(std::move(event));
  Execute request_of_rank = running_->request;
  request_of_rank.tag.clear();
  for (uint32_t rank : target) {
    ranks_[rank].cell = running_->request.cell;
    ranks_[rank].cell_start_ns = ranks_[rank].cell_end_ns = now_ns;
    ranks_[rank].execution_count =
        running_->request.store_history ? running_->request.execution_count : 0;
    agent_.send(rank, request_of_rank);
    request_of_rank.expressions.clear();  // The lowest rank alone evaluates them.
  }
  if (target.size() < ranks_.size()) tell_absent_soon(now_ns);
  finish_cell_if_done(now_ns);
}

void Controller::refuse_cell(const Execute& request, const char* ename, const std::string& why) {
  Event event;
  event.kind = SK_EVENT_ERROR;
  event.cell = request.cell;
  ErrorRecord error = failure(ename, "this cell was not run: " + why);
  event.ename = error.ename;
  event.evalue = error.evalue;
  event.traceback = error.traceback;
  emit(std::move(event));
  Event done;
  done.kind = SK_EVENT_CELL_DONE;
  done.cell = request.cell;
  done.status = SK_CELL_ERROR;
  emit(std::move(done));
  if (!request.go_on) drop_queue();
}

void Controller::drop_queue() {
  for (const Execute& request : std::exchange(queue_, {})) abort_cell(request.cell);
}

void Controller::abort_cell(uint64_t cell) {
  Event done;
  done.kind = SK_EVENT_CELL_DONE;
  done.cell = cell;
  done.status = SK_CELL_ABORTED;
  emit(std::move(done));
}

void Controller::finish_cell_if_done(int64_t now_ns) {
  if (!running_ || !running_->pending.empty()) return;
  const std::unique_ptr<Running> cell = std::move(running_);
  stack_questions_.erase(kOwnQuestion);
  prompts_.withdraw_all();
  settle_prompts(now_ns);
  for (Event& event : cell->engine.finish(cell->failures, now_ns)) {
    event.cell = cell->request.cell;
    emit(std::move(event));
  }
  display_ids_.learn(cell->engine.shown(), style_of(cell->request).live_id);
  const bool failed = cell->failed || !cell->failures.empty() || cell->engine.has_error();
  Event done;
  done.kind = SK_EVENT_CELL_DONE;
  done.cell = cell->request.cell;
  done.ranks = format_ranks(cell->target);
  done.all_ranks = true;
  done.status = failed ? SK_CELL_ERROR : SK_CELL_OK;
  done.times = std::move(cell->times);
  std::sort(done.times.begin(), done.times.end(),
            [](const RankTime& a, const RankTime& b) { return a.rank < b.rank; });
  done.text = cell->reply;
  emit(std::move(done));
  report_state();
  regroup_if_wanted();
  // Who has interrupted it has dropped what was queued; what came since came in spite of that.
  const bool drops = failed && !cell->request.go_on && cell->presses == 0;
  if (drops) drop_queue();
  start_next(now_ns);
}

// ---- time --------------------------------------------------------------------------------------

void Controller::on_time(int64_t now_ns) {
  agent_.on_time(now_ns);
  if (now_ns >= lease_until_ns_) {
    lease_until_ns_ = INT64_MAX;
    end(now_ns);
  }
  look_after_questions(now_ns);
  settle_prompts(now_ns);
  std::vector<uint64_t> late;
  for (const auto& [request, question] : stack_questions_)
    if (now_ns >= question.until_ns) late.push_back(request);
  for (const uint64_t request : late) end_stack_question(request);
  watch_interrupt(now_ns);
  watch_settling(now_ns);
  watch_absent(now_ns);
  emit_late(now_ns);
  if (running_) {
    for (Event& event : running_->engine.live(now_ns)) {
      event.cell = running_->request.cell;
      emit(std::move(event));
    }
  }
}

int64_t Controller::deadline_ns() const {
  int64_t deadline =
      std::min({agent_.deadline_ns(), lease_until_ns_, settle_deadline(), late_.deadline_ns()});
  for (const auto& [request, question] : questions_)
    deadline = std::min({deadline, question.until_ns, question.snapshot_at_ns});
  deadline = std::min(deadline, prompts_.deadline_ns());
  for (const auto& [request, question] : stack_questions_)
    deadline = std::min(deadline, question.until_ns);
  if (!running_) return deadline;
  deadline = std::min(deadline, running_->engine.deadline_ns());
  deadline = std::min({deadline, interrupt_deadline(), running_->tell_absent_ns});
  return deadline;
}

ErrorRecord Controller::failure(std::string ename, std::string evalue) {
  ErrorRecord error{std::move(ename), std::move(evalue), {}, 0};
  error.traceback.push_back(error.ename + ": " + error.evalue);
  return error;
}

}  // namespace sk::control
