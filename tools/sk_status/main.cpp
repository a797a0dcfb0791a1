// sk status: where the ranks of running jobs stand, and of dead ones stood.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

#include "lib/record/ended.h"
#include "tools/sk/verbs.h"
#include "tools/sk_status/status.h"
#include "tools/sk_status/words.h"
#include "tools/text/text.h"

namespace sk::status {
namespace {

constexpr const char* kUsage =
    "usage: sk status [--job JOB] [--calls N] [--json | --metrics[=FORM] | --forget [--all]]\n"
    "\n"
    "Says of each rank of this user's jobs on this host where it stands: in which call, since\n"
    "when, and for whom it waits; who is stopped, dead, missing, or behind all others. It reads\n"
    "what the ranks have recorded and needs no answer of theirs. Of ranks that have ended what\n"
    "they left is kept for a day (SK_RECORD_KEEP_S), unless they ended with exit status 0.\n"
    "\n"
    "  --job JOB   only jobs whose name begins so\n"
    "  --calls N   also the last N calls of each rank, 0 to 256 (default 0, with --json 8)\n"
    "  --json      for programs\n"
    "  --metrics   calls, bytes, failures and seconds by operation and rank: as OpenMetrics text,\n"
    "              or with --metrics=prometheus as the older text that node_exporter reads\n"
    "  --forget    remove the records of processes that have ended; with --all also of those that\n"
    "              cannot be seen from here, in a container's PID namespace\n"
    "\n"
    "Exit status: 0; 1 where no job has the name, or a record could not be read; 2 for a wrong\n"
    "command line.\n";

constexpr size_t kCallsOfJson = 8;
constexpr const char* kOpenMetrics = "--metrics=openmetrics";
constexpr const char* kPrometheus = "--metrics=prometheus";

struct Request {
  std::string job;
  bool named = false;
  std::string form;
  bool all = false;  // Of --forget.
  std::optional<size_t> calls;
  bool help = false;
};

Result<size_t> parse_calls(const char* text) {
  size_t value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, code] = std::from_chars(text, end, value);
  if (code != std::errc() || stop != end || value > record::kCalls) {
    return error(SK_ERR_INVALID_ARGUMENT, "--calls is \"{}\": it must be a number from 0 to {}",
                 text, record::kCalls);
  }
  return value;
}

Status check_metrics(const std::string& option) {
  if (option == kOpenMetrics || option == kPrometheus) return {};
  return error(SK_ERR_INVALID_ARGUMENT, "\"{}\": the form must be openmetrics or prometheus",
               option);
}

Result<Request> parse(int argc, char** argv) {
  Request request;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--help" || option == "-h") {
      request.help = true;
      return request;
    }
    if (option == "--all") {
      request.all = true;
      continue;
    }
    const bool metrics = option == "--metrics" || option.starts_with("--metrics=");
    if (metrics && option != "--metrics") SK_RETURN_IF_ERROR(check_metrics(option));
    if (option == "--json" || option == "--forget" || metrics) {
      if (!request.form.empty() && request.form != option) {
        return error(SK_ERR_INVALID_ARGUMENT, "{} and {} do not go together", request.form, option);
      }
      request.form = option;
      continue;
    }
    if (option != "--job" && option != "--calls")
      return error(SK_ERR_INVALID_ARGUMENT, "\"{}\" is no option", option);
    if (++i == argc) return error(SK_ERR_INVALID_ARGUMENT, "{} needs a value", option);
    if (option == "--job") {
      if (argv[i][0] == '\0')
        return error(SK_ERR_INVALID_ARGUMENT, "--job is empty: it must be how a job's name begins");
      request.job = argv[i];
      request.named = true;
    } else {
      SK_ASSIGN_OR_RETURN(request.calls, parse_calls(argv[i]));
    }
  }
  if (request.all && request.form != "--forget")
    return error(SK_ERR_INVALID_ARGUMENT, "--all goes with --forget alone");
  return request;
}

void complain(const std::string& sentence) {
  std::fprintf(stderr, "sk status: %s\n", printable(sentence).c_str());
}

int print(const std::string& text) {
  const bool written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (!written) complain(system_error("cannot write").message());
  return written ? 0 : 1;
}

std::string names_of(const std::vector<Job>& jobs) {
  std::string out;
  for (const Job& job : jobs) out += (out.empty() ? "" : ", ") + job.name;
  return out.empty() ? "there is none" : "there is " + out;
}

std::string forgotten_text(const Forgotten& forgotten) {
  const auto counted = [](size_t count) {
    return fmt::format("{} record{}", count, count == 1 ? "" : "s");
  };
  std::string text = counted(forgotten.removed) + " removed.\n";
  if (forgotten.unseen > 0) {
    text += fmt::format("{} stay{}, of processes that cannot be seen from here: --all takes {}.\n",
                        counted(forgotten.unseen), forgotten.unseen == 1 ? "s" : "",
                        forgotten.unseen == 1 ? "it, too" : "them, too");
  }
  return text;
}

int answer(const Request& request) {
  Result<record::Settings> settings = record::read_settings(record::process_env);
  if (!settings.ok()) {
    complain(settings.status().message());
    return 1;
  }
  Found found = find_jobs(*settings, record::process_env);
  const std::vector<std::string> unreadable = unreadable_in(found.look);
  for (const std::string& each : unreadable) complain(each);
  int status = unreadable.empty() ? 0 : 1;
  if (request.named) {
    const std::string all = names_of(found.jobs);
    keep_jobs(request.job, found.jobs);
    if (found.jobs.empty()) {
      complain(fmt::format("no job's name begins with \"{}\": {}", request.job, all));
      status = 1;
    }
  }
  if (request.form == "--forget") {
    const Forgotten forgotten = forget(found.look, request.job, request.all);
    return std::max(status, print(forgotten_text(forgotten)));
  }
  if (request.form == "--metrics" || request.form == kOpenMetrics)
    return std::max(status, print(to_metrics(found, Metrics::kOpenMetrics)));
  if (request.form == kPrometheus)
    return std::max(status, print(to_metrics(found, Metrics::kPrometheus)));
  if (request.form == "--json")
    return std::max(status, print(to_json(found, request.calls.value_or(kCallsOfJson))));
  if (found.jobs.empty() && request.named) return status;
  return std::max(status, print(to_text(found, request.calls.value_or(0))));
}

}  // namespace
}  // namespace sk::status

int run_status(int argc, char** argv) {
  const auto request = sk::status::parse(argc, argv);
  if (!request.ok()) {
    sk::status::complain(request.status().message());
    std::fputs("sk status --help says more\n", stderr);
    return 2;
  }
  if (request.value().help) {
    std::fputs(sk::status::kUsage, stdout);
    return 0;
  }
  return sk::status::answer(request.value());
}
