// What the session asks of the controller itself: how its ranks are.
#include <fmt/format.h>

#include <utility>

#include "lib/control/controller.h"
#include "lib/control/rank_set.h"
#include "lib/control/text.h"

namespace sk::control {
namespace {

constexpr size_t kPromptShown = 60;

// The last line of the prompt, which may follow a screen of text.
std::string prompt_of(const Prompts::Asked& asked) {
  const std::string prompt = utf8_clean(*asked.prompt);
  std::string_view line = prompt;
  while (!line.empty() && (line.back() == '\n' || line.back() == ' ')) line.remove_suffix(1);
  line.remove_prefix(line.rfind('\n') + 1);  // npos + 1 is 0.
  if (line.size() <= kPromptShown) return std::string(line);
  line = line.substr(0, kPromptShown);
  return std::string(line.substr(0, line.size() - utf8_open_tail(line))) + "…";
}

}  // namespace

const char* Controller::state_name(uint32_t rank) const {
  const Rank& r = ranks_[rank];
  switch (r.state) {
    case RankState::kStarting:
      return r.incarnation > 0 ? "reviving" : "starting";
    case RankState::kStuck:
      return r.settles_until_ns != 0 ? "interrupting" : "stuck";
    case RankState::kDead:
      return "dead";
    case RankState::kReady:
      break;
  }
  if (running_ && running_->pending.contains(rank))
    return running_->interrupts > 0 && !is_answered() ? "interrupting" : "busy";
  return in_comm_cell(rank) ? "busy" : "idle";
}

// What a rank does, since when, and whom it waits for.
std::string Controller::work_json(uint32_t rank, int64_t now_ns) const {
  const Rank& r = ranks_[rank];
  const bool in_cell =
      r.state == RankState::kStuck || (running_ && running_->pending.contains(rank));
  const bool in_comm = !in_cell && in_comm_cell(rank);
  std::string json = fmt::format(R"("doing":"{}")", in_cell ? "cell" : in_comm ? "comm" : "");
  if (!in_cell && !in_comm) return json;
  const int64_t since_ns = in_cell ? r.cell_start_ns : r.comm_start_ns;
  json +=
      fmt::format(R"(,"execution_count":{},"elapsed_seconds":{:.3f})",
                  in_cell ? r.execution_count : 0, static_cast<double>(now_ns - since_ns) * 1e-9);
  const Heartbeat& last = agent_.heartbeat(rank);
  if (!last.waits_in.empty())
    json += fmt::format(R"(,"waits_in":{},"waits_for":"{}")", json_string(last.waits_in),
                        brief_ranks(last.waits_for, static_cast<uint32_t>(ranks_.size())));
  if (const auto asked = prompts_.asked_by(rank))
    json += fmt::format(R"(,"asks":{},"asked_seconds":{:.3f})", json_string(prompt_of(*asked)),
                        static_cast<double>(now_ns - asked->since_ns) * 1e-9);
  return json;
}

void Controller::on_status(const Ask& ask, int64_t now_ns) {
  const HostFacts host = ports_.host_facts();
  std::string json = fmt::format(
      R"({{"world_size":{},"epoch":{},"running_cell":{},"queued_cells":{},"host":{{"name":{},)"
      R"("cpus":{},"memory_bytes":{},"memory_available_bytes":{},"controller_pid":{}}},"ranks":[)",
      ranks_.size(), epoch_, running_ ? running_->request.cell : 0, queue_.size(),
      json_string(host.name), host.cpus, host.memory_bytes, host.memory_available_bytes,
      host.controller_pid);
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    const Rank& r = ranks_[rank];
    const RankFacts facts = ports_.rank_facts(rank);
    const bool has_cause = r.state == RankState::kDead || r.state == RankState::kStuck;
    json += fmt::format(
        R"({}{{"rank":{},"state":"{}","pid":{},"host":{},"language":{},"incarnation":{},)"
        R"("cause":{},"rss_bytes":{},"last_cell":{},"last_cell_seconds":{:.6f},{}}})",
        rank == 0 ? "" : ",", rank, state_name(rank), facts.pid, json_string(host.name),
        json_string(r.language), r.incarnation, json_string(has_cause ? r.dead_cause : ""),
        facts.resident_bytes, r.cell, static_cast<double>(r.cell_end_ns - r.cell_start_ns) * 1e-9,
        work_json(rank, now_ns));
  }
  Reply reply;
  reply.request = ask.request;
  reply.text = json + "]}";
  answer(std::move(reply));
}

}  // namespace sk::control
