#include "lib/comm/trace.h"

#include <iterator>
#include <string_view>

#include "lib/plan/task_info.h"

namespace sk {
namespace {

void append(std::string& out, std::string_view name, uint32_t rank, const TaskEvent& event,
            int64_t begin_ns, int64_t end_ns, const std::string& args) {
  fmt::format_to(std::back_inserter(out),
                 R"({}{{"ph":"X","name":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},)"
                 R"("args":{{"task":{},{}}}}})",
                 out.back() == '[' ? "" : ",\n", name, rank, event.queue, double(begin_ns) * 1e-3,
                 double(end_ns - begin_ns) * 1e-3, event.task, args);
}

}  // namespace

std::string trace_json(const TraceBuffer& trace, uint32_t rank) {
  std::string out = "{\"traceEvents\": [";
  for (const TraceBuffer::Run& run : trace.runs) {
    const std::string call = fmt::format(R"("call":"{}")", describe(run.plan->op));
    const RankPlan& part = *run.plan->part(rank);
    for (const TaskEvent& event : run.events) {
      if (event.start_ns - event.wait_ns > 1000) {
        append(out, "wait", rank, event, event.wait_ns, event.start_ns, call);
      }
      const std::optional<ChosenForm> form = chosen_form(part, part.tasks[event.task]);
      append(out, task_op_name(part.tasks[event.task].op), rank, event, event.start_ns,
             event.end_ns,
             form ? fmt::format(R"({},"{}":"{}")", call, form->parameter.name,
                                form->parameter.word(form->value))
                  : call);
    }
  }
  fmt::format_to(std::back_inserter(out), "],\n\"dropped\": {}", trace.dropped);
  if (trace.clock_step_ns != 0) {
    fmt::format_to(std::back_inserter(out), ",\n\"clock\": {{\"step_ns\": {}, \"error_ns\": {}}}",
                   trace.clock_step_ns, trace.clock_error_ns);
  }
  out += '}';
  return out;
}

}  // namespace sk
