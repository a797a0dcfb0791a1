#include "tools/sk_status/words.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <ctime>
#include <map>
#include <optional>

#include "tools/text/text.h"

namespace sk::status {
namespace {

using record::End;

tm local_time(int64_t wall_ns) {
  const time_t seconds = time_t(wall_ns / 1'000'000'000);
  tm parts = {};
  localtime_r(&seconds, &parts);
  return parts;
}

// "for 3.1 s, since 04:05:06"; of a process that has ended without how long, which nobody may know.
std::string since_text(const Process& process, int64_t monotonic_ns, const Now& at) {
  const Moment moment = moment_of(process, monotonic_ns, at);
  if (process.life == Life::kEnded) return "since " + clock_text(moment.wall_ns, at);
  return fmt::format("for {}, since {}", duration(moment.ago_s), clock_text(moment.wall_ns, at));
}

std::string ago_text(const Process& process, int64_t monotonic_ns, const Now& at) {
  const Moment moment = moment_of(process, monotonic_ns, at);
  return fmt::format("{} ago, at {}", duration(moment.ago_s), clock_text(moment.wall_ns, at));
}

std::string named(const record::Call& call) { return fmt::format("{} #{}", call.text, call.seq); }

// Where its calls are, as the record has it, whatever became of the process.
std::string place_text(const RankRow& row, const Now& at) {
  const Process& process = *row.process;
  if (row.comm->stage == record::Stage::kMeeting)
    return "looking for the other ranks " + since_text(process, row.comm->began_ns, at);
  if (row.in_call) {
    std::string text =
        fmt::format("in {} {}", named(*row.call), since_text(process, row.call->entered_ns, at));
    if (row.comm->awaited) {
      text +=
          fmt::format(": {} for rank {} over {}", process.life == Life::kEnded ? "waited" : "waits",
                      *row.comm->awaited, link_to(row, *row.comm->awaited));
    }
    return text;
  }
  if (row.entering) return "entering a call";
  if (row.call == nullptr) return "outside calls, has made none";
  return fmt::format("outside calls {}, after {}{}", since_text(process, row.call->left_ns, at),
                     named(*row.call),
                     row.call->state == record::CallState::kFailed
                         ? fmt::format(" ({})", status_name(row.call->code))
                         : "");
}

std::string signal_text(int number) {
  const char* name = sigabbrev_np(number);
  return name == nullptr ? std::to_string(number) : fmt::format("{} (SIG{})", number, name);
}

std::string end_text(const Process& process, const Now& at) {
  const record::ProcessView& view = process.view;
  std::string text = "dead";
  if (!process.program.empty()) text = "has become another program, " + process.program;
  if (view.end == End::kExited) text = fmt::format("ended with exit status {}", view.end_code);
  if (view.end == End::kSignaled)
    text = fmt::format("killed by signal {}", signal_text(view.end_code));
  const bool when = view.end == End::kExited || view.end == End::kSignaled;
  if (when && view.end_wall_ns != 0) {
    text += fmt::format(" {} ago, at {}", duration(double(at.wall_ns - view.end_wall_ns) * 1e-9),
                        clock_text(view.end_wall_ns, at));
  }
  return text;
}

std::string halt_text(Halt halt) {
  switch (halt) {
    case Halt::kDebugger:
      return "held by a debugger";
    case Halt::kFrozen:
      return "frozen with its control group";
    case Halt::kSignal:
      break;
  }
  return "stopped by a signal";
}

std::string over_text(const RankRow& row) {
  return fmt::format("over, {}: {}", status_name(row.comm->over_code), row.comm->over_sentence);
}

std::string ranks_text(const std::vector<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", numbers_text(ranks));
}
std::string capital(std::string text) {
  if (!text.empty()) text[0] = char(std::toupper(uint8_t(text[0])));
  return text;
}

template <typename Is>
std::vector<int> ranks_where(const Comm& comm, const Is& is) {
  std::vector<int> ranks;
  for (const RankRow& row : comm.rows)
    if (is(row)) ranks.push_back(int(row.rank));
  return ranks;
}

bool has_replaced(const RankRow& row) {
  return row.state == State::kEnded && !row.process->program.empty();
}
auto halted(Halt halt) {
  return
      [=](const RankRow& row) { return row.state == State::kStopped && row.process->halt == halt; };
}

// Calls that will never be one, while ranks wait in them for others.
std::optional<std::string> mismatch(const Comm& comm) {
  std::map<uint64_t, std::map<std::string, std::vector<int>>> calls;  // By number, then by text.
  for (const RankRow& row : comm.rows) {
    if (row.process == nullptr || !row.in_call || row.call->pair) continue;
    if (row.state != State::kEnded) calls[row.call->seq][row.call->text].push_back(int(row.rank));
  }
  for (const auto& [number, texts] : calls) {
    if (texts.size() < 2) continue;
    std::string all;
    for (const auto& [text, ranks] : texts)
      all += fmt::format("{}{} in {}", all.empty() ? "" : ", ", ranks_text(ranks), text);
    return fmt::format("Ranks differ in call #{}: {}.", number, all);
  }
  return std::nullopt;
}

}  // namespace

std::string duration(double seconds) {
  if (!(seconds > 0)) seconds = 0;
  if (seconds < 10) return fmt::format("{:.2f} s", seconds);
  if (seconds < 120) return fmt::format("{:.1f} s", seconds);
  if (seconds < 2 * 3600) return fmt::format("{:.0f} min", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{:.1f} h", seconds / 3600);
  return fmt::format("{:.1f} days", seconds / 86400);
}

std::string clock_text(int64_t wall_ns, const Now& at) {
  const tm then = local_time(wall_ns), today = local_time(at.wall_ns);
  const bool is_today = then.tm_yday == today.tm_yday && then.tm_year == today.tm_year;
  char text[32];
  strftime(text, sizeof(text), is_today ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &then);
  return text;
}

std::string iso_time(int64_t wall_ns) {
  const time_t seconds = time_t(wall_ns / 1'000'000'000);
  tm parts = {};
  gmtime_r(&seconds, &parts);
  char text[32];
  strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts);
  return fmt::format("{}.{:03}Z", text, wall_ns / 1'000'000 % 1000);
}

std::vector<std::string> unreadable_in(const Look& look) {
  std::vector<std::string> out = look.refused;
  for (const Unread& each : look.unread) out.push_back(each.sentence);
  return out;
}

std::string link_to(const RankRow& row, uint32_t peer) {
  if (row.comm->here.empty()) return "?";
  return row.comm->is_here(peer) ? "shm" : row.comm->far;
}

std::string row_text(const Comm& comm, const RankRow& row, const Now& at) {
  switch (row.state) {
    case State::kMissing:
      return comm.id == 0 ? "not recorded on this host: it has not come to make this communicator, "
                            "is on another host, or records no calls"
                          : "not recorded on this host: it has ended well, its record was removed, "
                            "or it records no calls";
    case State::kEnded: {
      if (row.comm->over_code != 0) return end_text(*row.process, at) + "; " + over_text(row);
      return end_text(*row.process, at) + "; was " + place_text(row, at);
    }
    case State::kStopped:
      return halt_text(row.process->halt) + "; " +
             (row.comm->over_code != 0 ? over_text(row) : place_text(row, at));
    case State::kInvisible:
      return "in another PID namespace, whether it lives is not seen from here; " +
             place_text(row, at);
    case State::kOver:
      return over_text(row) + ", " + ago_text(*row.process, row.comm->over_ns, at);
    case State::kFreed:
      return "has freed the communicator " + ago_text(*row.process, row.comm->over_ns, at);
    case State::kMeeting:
    case State::kInCall:
    case State::kOutside:
      break;
  }
  return place_text(row, at);
}

std::vector<std::string> findings(const Comm& comm) {
  std::vector<std::string> out;
  const auto say = [&](const auto& is, const char* one, const char* many) {
    const std::vector<int> ranks = ranks_where(comm, is);
    if (!ranks.empty())
      out.push_back(capital(ranks_text(ranks)) + (ranks.size() == 1 ? one : many));
  };
  const auto dead = [](const RankRow& row) {
    return row.state == State::kEnded && !has_replaced(row);
  };
  if (!comm.ended()) say(dead, " is dead.", " are dead.");
  say(has_replaced, " has become another program.", " have become other programs.");
  say([](const RankRow& row) { return row.state == State::kMissing; },
      " is not recorded on this host.", " are not recorded on this host.");
  say(halted(Halt::kSignal), " is stopped, and goes on with SIGCONT.",
      " are stopped, and go on with SIGCONT.");
  say(halted(Halt::kDebugger), " is held by a debugger.", " are held by a debugger.");
  say(halted(Halt::kFrozen), " is frozen, and goes on when its control group is thawed.",
      " are frozen, and go on when their control groups are thawed.");
  std::map<uint32_t, std::vector<int>> waiting;
  for (const RankRow& row : comm.rows) {
    if (row.state == State::kInCall && row.in_call && row.comm->awaited)
      waiting[*row.comm->awaited].push_back(int(row.rank));
  }
  for (const auto& [peer, ranks] : waiting) {
    out.push_back(fmt::format("{} {} for rank {}.", capital(ranks_text(ranks)),
                              ranks.size() == 1 ? "waits" : "wait", peer));
  }
  if (const auto differ = mismatch(comm)) out.push_back(*differ);
  if (!comm.behind.empty()) {
    out.push_back(
        fmt::format("{} {} behind: {} calls of all ranks entered, where others have entered {}.",
                    capital(ranks_text(comm.behind)), comm.behind.size() == 1 ? "is" : "are",
                    comm.least, comm.most));
  }
  if (!comm.elsewhere.empty()) {
    out.push_back(fmt::format("{} {} on other hosts: sk status says there where {}.",
                              capital(ranks_text(comm.elsewhere)),
                              comm.elsewhere.size() == 1 ? "is" : "are",
                              comm.elsewhere.size() == 1 ? "it stands" : "they stand"));
  }
  return out;
}

std::string call_text(const Process& process, const record::Call& call, const Now& at) {
  const std::string when = ago_text(process, call.entered_ns, at);
  std::string end = "entered, and not left";
  if (call.state == record::CallState::kDone)
    end = "done";
  else if (call.state == record::CallState::kFailed)
    end = status_name(call.code);
  return fmt::format("{}, {} bytes, {}: {}", named(call), call.bytes, when, end);
}

}  // namespace sk::status
