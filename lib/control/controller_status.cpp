// What the session asks of the controller itself: how its ranks are.
#include <fmt/format.h>

#include <utility>

#include "lib/control/controller.h"
#include "lib/control/text.h"

namespace sk::control {

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
  if (!running_ || !running_->pending.contains(rank)) return "idle";
  return running_->interrupts > 0 ? "interrupting" : "busy";
}

void Controller::on_status(const Ask& ask) {
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
        R"("cause":{},"rss_bytes":{},"last_cell":{},"last_cell_seconds":{:.6f}}})",
        rank == 0 ? "" : ",", rank, state_name(rank), facts.pid, json_string(host.name),
        json_string(r.language), r.incarnation, json_string(has_cause ? r.dead_cause : ""),
        facts.resident_bytes, r.cell, static_cast<double>(r.cell_end_ns - r.cell_start_ns) * 1e-9);
  }
  Reply reply;
  reply.request = ask.request;
  reply.text = json + "]}";
  answer(std::move(reply));
}

}  // namespace sk::control
