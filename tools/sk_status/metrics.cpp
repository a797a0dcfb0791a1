// OpenMetrics 1.0 text: families one after the other, their unit at the end of their names,
// counters' samples with _total, "# EOF" last. Prometheus's text format 0.0.4 differs: counters'
// families are named as their samples, there are no units and no state sets, and nothing comes
// last.
#include <fmt/format.h>

#include <functional>
#include <map>

#include "tools/sk_status/status.h"
#include "tools/text/text.h"

namespace sk::status {
namespace {

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : printable(text)) {
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

std::string labels_of(const Job& job, const Comm& comm, const RankRow& row) {
  return fmt::format(R"(job="{}",communicator="{}",id="{:016x}",rank="{}")", escaped(job.name),
                     escaped(comm.name), comm.id, row.rank);
}

struct Sum {
  uint64_t calls = 0, failures = 0, bytes = 0;
  int64_t ns = 0;
};

struct Family {
  const char* name;
  const char* type;
  const char* unit;  // "": none.
  const char* help;
};

void begin(const Family& family, Metrics form, std::string& out) {
  if (form == Metrics::kPrometheus) {
    const std::string type = family.type;
    const std::string name = family.name + std::string(type == "counter" ? "_total" : "");
    out += fmt::format("# HELP {} {}\n", name, family.help);
    out += fmt::format("# TYPE {} {}\n", name, type == "stateset" ? "gauge" : type);
    return;
  }
  out += fmt::format("# TYPE {} {}\n", family.name, family.type);
  if (family.unit[0] != '\0') out += fmt::format("# UNIT {} {}\n", family.name, family.unit);
  out += fmt::format("# HELP {} {}\n", family.name, family.help);
}

template <typename Each>
void for_each_row(const Found& found, const Each& each) {
  for (const Job& job : found.jobs) {
    for (const Comm& comm : job.comms) {
      for (const RankRow& row : comm.rows) each(job, comm, row);
    }
  }
}

void append_totals(const Found& found, const Family& family, Metrics form,
                   const std::function<std::string(const Sum&)>& value, std::string& out) {
  begin(family, form, out);
  for_each_row(found, [&](const Job& job, const Comm& comm, const RankRow& row) {
    if (row.comm == nullptr) return;
    std::map<std::string, Sum> sums;
    for (const record::OpTotal& total : row.comm->totals) {
      Sum& sum = sums[total.kind];
      sum.calls += total.calls;
      sum.failures += total.failures;
      sum.bytes += total.bytes;
      sum.ns = int64_t(uint64_t(sum.ns) + uint64_t(total.ns));
    }
    for (const auto& [kind, sum] : sums) {
      out += fmt::format("{}_total{{{},operation=\"{}\"}} {}\n", family.name,
                         labels_of(job, comm, row), escaped(kind), value(sum));
    }
  });
}

constexpr State kStates[] = {State::kMeeting, State::kInCall,    State::kOutside,
                             State::kOver,    State::kFreed,     State::kStopped,
                             State::kEnded,   State::kInvisible, State::kMissing};

}  // namespace

std::string to_metrics(const Found& found, Metrics form) {
  std::string out;
  append_totals(
      found, {"sk_calls", "counter", "", "Calls that have ended, well or not."}, form,
      [](const Sum& sum) { return std::to_string(sum.calls); }, out);
  append_totals(
      found, {"sk_call_failures", "counter", "", "Calls that have failed."}, form,
      [](const Sum& sum) { return std::to_string(sum.failures); }, out);
  append_totals(
      found,
      {"sk_call_bytes", "counter", "bytes",
       "Bytes of the rank's own operands, in and out, of calls that went well."},
      form, [](const Sum& sum) { return std::to_string(sum.bytes); }, out);
  append_totals(
      found,
      {"sk_call_seconds", "counter", "seconds",
       "Time inside calls that have ended, waits for other ranks included."},
      form, [](const Sum& sum) { return fmt::format("{:.9f}", double(sum.ns) * 1e-9); }, out);
  begin({"sk_current_call_seconds", "gauge", "seconds",
         "How long ago the rank entered the call that it is in; 0 outside calls."},
        form, out);
  for_each_row(found, [&](const Job& job, const Comm& comm, const RankRow& row) {
    if (row.comm == nullptr || row.state == State::kEnded) return;
    const double ago =
        row.in_call ? moment_of(*row.process, row.call->entered_ns, found.look.at).ago_s : 0;
    out += fmt::format("sk_current_call_seconds{{{}}} {:.3f}\n", labels_of(job, comm, row), ago);
  });
  begin({"sk_rank_state", "stateset", "", "Where the rank stands, as sk status --json has it."},
        form, out);
  for_each_row(found, [&](const Job& job, const Comm& comm, const RankRow& row) {
    for (const State state : kStates) {
      out += fmt::format("sk_rank_state{{{},sk_rank_state=\"{}\"}} {}\n", labels_of(job, comm, row),
                         state_word(state), state == row.state ? 1 : 0);
    }
  });
  return form == Metrics::kPrometheus ? out : out + "# EOF\n";
}

}  // namespace sk::status
