#include "tools/text/text.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/sk_kernel/table.h"
#include "tools/sk_status/status.h"
#include "tools/sk_status/words.h"

namespace sk::status {
namespace {

std::string comm_head(const Comm& comm) {
  return fmt::format("communicator {}of {} ranks{}",
                     comm.name.empty() ? "" : "\"" + printable(comm.name) + "\" ", comm.world_size,
                     comm.id == 0   ? ", which look for each other"
                     : comm.ended() ? ", all ended here"
                                    : "");
}

void append_comm(const Comm& comm, const Now& at, size_t calls, std::string& out) {
  out += "\n" + comm_head(comm) + "\n";
  kernel::Table table;
  table.head = {"rank", "pid", "host", "state"};
  for (const RankRow& row : comm.rows) {
    const bool known = row.process != nullptr;
    table.rows.push_back({std::to_string(row.rank), known ? std::to_string(row.process->pid) : "-",
                          known ? printable(row.process->view.host) : "-",
                          printable(row_text(comm, row, at))});
  }
  out += table.plain() + "\n";
  for (const std::string& finding : findings(comm)) out += finding + "\n";
  if (calls == 0) return;
  for (const RankRow& row : comm.rows) {
    if (row.comm == nullptr || row.comm->calls.empty()) continue;
    out += fmt::format(
        "\nlast calls of rank {}{}\n", row.rank,
        row.comm->torn == 0 ? "" : fmt::format(", but {} that were being written", row.comm->torn));
    const auto& all = row.comm->calls;
    for (size_t i = all.size() - std::min(calls, all.size()); i < all.size(); ++i)
      out += "  " + printable(call_text(*row.process, all[i], at)) + "\n";
  }
}

}  // namespace

std::string to_text(const Found& found, size_t calls) {
  std::string out;
  for (const Job& job : found.jobs) {
    out += fmt::format("{}job {}{}\n", out.empty() ? "" : "\n", printable(job.name),
                       job.launcher.empty() ? "" : " (" + printable(job.launcher) + ")");
    for (const Comm& comm : job.comms) append_comm(comm, found.at, calls, out);
  }
  if (out.empty()) out = "No job of this user has ranks here.\n";
  return out;
}

}  // namespace sk::status
