#include <algorithm>
#include <nlohmann/json.hpp>

#include "sk/base.h"
#include "tools/sk_status/status.h"
#include "tools/sk_status/words.h"
#include "tools/text/text.h"

namespace sk::status {
namespace {

using Json = nlohmann::json;

Json call_json(const Process& process, const record::Call& call, const Now& at) {
  constexpr const char* kStates[] = {"", "entered", "done", "failed"};
  const Moment entered = moment_of(process, call.entered_ns, at);
  Json out = {{"operation", printable(call.kind)},
              {"call", printable(call.text)},
              {"number", call.number},
              {"seq", call.seq},
              {"of_two_ranks", call.pair},
              {"bytes", call.bytes},
              {"state", kStates[size_t(call.state)]},
              {"entered", iso_time(entered.wall_ns)},
              {"entered_monotonic_ns", call.entered_ns},
              {"seconds_ago", entered.ago_s}};
  if (call.state != record::CallState::kEntered)
    out["seconds"] = double(std::max<int64_t>(0, call.left_ns - call.entered_ns)) * 1e-9;
  if (call.state == record::CallState::kFailed) out["error"] = status_name(call.code);
  return out;
}

Json end_json(const Process& process) {
  const record::ProcessView& view = process.view;
  Json out = {{"how", "unknown"}};
  if (!process.program.empty())
    out = {{"how", "replaced"}, {"program", printable(process.program)}};
  if (view.end == record::End::kExited)
    out = {{"how", "exited"}, {"code", view.end_code}, {"when", iso_time(view.end_wall_ns)}};
  if (view.end == record::End::kSignaled)
    out = {{"how", "signaled"}, {"signal", view.end_code}, {"when", iso_time(view.end_wall_ns)}};
  return out;
}

Json row_json(const Comm& comm, const RankRow& row, const Now& at, size_t calls) {
  Json out = {{"rank", row.rank},
              {"state", state_word(row.state)},
              {"says", printable(row_text(comm, row, at))}};
  if (row.process == nullptr) return out;
  const Process& process = *row.process;
  out["pid"] = process.pid;
  out["host"] = printable(process.view.host);
  out["program"] = printable(process.view.program);
  out["in_call"] = row.in_call;
  if (row.entered) out["calls_entered"] = *row.entered;
  if (row.call != nullptr) out["call"] = call_json(process, *row.call, at);
  if (row.in_call && row.comm->awaited) {
    out["waits_for"] = {{"rank", *row.comm->awaited}, {"link", link_to(row, *row.comm->awaited)}};
  }
  if (row.comm->over_code != 0) {
    out["over"] = {{"error", status_name(row.comm->over_code)},
                   {"sentence", printable(row.comm->over_sentence)}};
  }
  if (row.state == State::kStopped) {
    constexpr const char* kHalts[] = {"signal", "debugger", "frozen"};
    out["stopped_by"] = kHalts[size_t(process.halt)];
  }
  if (process.life == Life::kEnded) out["end"] = end_json(process);
  out["torn"] = row.comm->torn;
  out["last_calls"] = Json::array();
  const auto& all = row.comm->calls;
  for (size_t i = all.size() - std::min(calls, all.size()); i < all.size(); ++i)
    out["last_calls"].push_back(call_json(process, all[i], at));
  return out;
}

Json comm_json(const Comm& comm, const Now& at, size_t calls) {
  Json out = {
      {"name", printable(comm.name)},  {"id", comm.id == 0 ? "" : fmt::format("{:016x}", comm.id)},
      {"world_size", comm.world_size}, {"behind", comm.behind},
      {"elsewhere", comm.elsewhere},   {"missing", Json::array()},
      {"findings", findings(comm)},    {"ranks", Json::array()}};
  for (const RankRow& row : comm.rows) {
    if (row.state == State::kMissing) out["missing"].push_back(row.rank);
    out["ranks"].push_back(row_json(comm, row, at, calls));
  }
  return out;
}

}  // namespace

std::string to_json(const Found& found, size_t calls) {
  Json out = {{"status", 1},
              {"sk", fmt::format("{}.{}.{}", SK_VERSION_MAJOR, SK_VERSION_MINOR, SK_VERSION_PATCH)},
              {"when", iso_time(found.look.at.wall_ns)},
              {"jobs", Json::array()},
              {"unreadable", Json::array()}};
  for (const std::string& each : unreadable_in(found.look))
    out["unreadable"].push_back(printable(each));
  for (const Job& job : found.jobs) {
    Json comms = Json::array();
    for (const Comm& comm : job.comms) comms.push_back(comm_json(comm, found.look.at, calls));
    out["jobs"].push_back({{"job", printable(job.name)},
                           {"launcher", printable(job.launcher)},
                           {"began", iso_time(job.began_wall_ns())},
                           {"communicators", std::move(comms)}});
  }
  return out.dump(2) + "\n";
}

}  // namespace sk::status
