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
                     comm.ended()
                         ? comm.id == 0 ? ", which never met; all ended here" : ", all ended here"
                     : comm.id == 0 ? ", which look for each other"
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
    out += fmt::format("{}job {}{}, begun {}\n", out.empty() ? "" : "\n", printable(job.name),
                       job.launcher.empty() ? "" : " (" + printable(job.launcher) + ")",
                       clock_text(job.began_wall_ns(), found.look.at));
    for (const Comm& comm : job.comms) append_comm(comm, found.look.at, calls, out);
  }
  if (out.empty()) {
    const size_t unread = found.look.unread.size();
    out = unread == 0 ? "No job of this user has ranks here.\n"
                      : fmt::format(
                            "No job of this user has ranks here that this sk can read; {} "
                            "record{} it cannot.\n",
                            unread, unread == 1 ? "" : "s");
  }
  return out;
}

}  // namespace sk::status
