// sk doctor: what this machine and this job allow, and what stands in the way.
#include <charconv>
#include <cstdio>
#include <cstring>

#include "tools/sk/verbs.h"
#include "tools/sk_doctor/checks.h"
#include "tools/sk_doctor/library.h"
#include "tools/sk_doctor/modes.h"
#include "transport/bootstrap/secret.h"

namespace sk::doctor {
namespace {

constexpr char kUsage[] =
    "usage: sk doctor [--json] [--timeout SECONDS]\n"
    "\n"
    "Looks at this machine, starts a few ranks on it and sends bytes between them, and says in a\n"
    "line each what was found: ok, info (not judged), limit (works, and less of it than could be)\n"
    "or fault (will make work fail), with what to do about the last two.\n"
    "\n"
    "Started as the ranks of a job (sk run -n 4 sk doctor; torchrun, mpirun and srun likewise) it\n"
    "compares the ranks, exchanges 1 MiB between every two of them, and rank 0 prints.\n"
    "\n"
    "  --json             for programs: see docs/doctor.md\n"
    "  --timeout SECONDS  how long ranks are waited for in each step, 1 to 3600; default 20\n"
    "\n"
    "Exit status: 0 when there is no fault, 1 when there is one, 2 for a wrong command line.\n";

Result<double> parse_seconds(const char* text) {
  double value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, code] = std::from_chars(text, end, value);
  if (code != std::errc() || stop != end || !(value >= 1) || value > 3600) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "--timeout is \"{}\": it must be a number of seconds from 1 to 3600", text);
  }
  return value;
}

Result<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--help" || option == "-h") {
      options.help = true;
      return options;
    }
    if (option == "--json") {
      options.json = true;
    } else if (option == "--started-rank") {
      options.is_started_rank = true;
    } else if (option != "--timeout") {
      return error(SK_ERR_INVALID_ARGUMENT, "\"{}\" is no option", option);
    } else if (++i == argc) {
      return error(SK_ERR_INVALID_ARGUMENT, "--timeout needs a value");
    } else {
      SK_ASSIGN_OR_RETURN(options.timeout_s, parse_seconds(argv[i]));
    }
  }
  return options;
}

}  // namespace

int report(const Options& options, const Findings& findings, const Json& more,
           const std::string& table) {
  std::string text;
  if (options.json) {
    Json out = more;
    out["doctor"] = 1;  // Grows when a field of before changes its meaning.
    out["sk"] = own_version();
    out["ok"] = !findings.faulty();
    out["findings"] = Json::array();
    for (const Finding& each : findings.all()) out["findings"].push_back(to_json(each));
    text = out.dump(2) + "\n";
  } else {
    text = (table.empty() ? "" : table + "\n") + to_text(findings);
  }
  const bool written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (!written) std::fprintf(stderr, "sk doctor: cannot write: %s\n", std::strerror(errno));
  return findings.faulty() || !written ? 1 : 0;
}

Probe check_rank(const Identity* identity, Findings* findings) {
  Probe library = check_library(findings);
  check_isa(library, findings);
  check_cpus(findings);
  check_memory(findings);
  check_descriptors(identity, findings);
  check_processes(findings);
  check_shared_memory(findings);
  check_pidfd(findings);
  return library;
}

void check_machine(Findings* findings, Run run) {
  const Probe library = check_rank(nullptr, findings);
  check_network(findings);
  check_ports(nullptr, findings);
  check_tls(findings);
  check_gpu(library, findings);
  check_notebooks(findings);
  check_environment(findings, run);
}

namespace {

int examine(const Options& options) {
  if (options.is_started_rank) return be_started_rank(options);
  Findings findings;
  const auto identity = read_identity(process_env);
  if (!identity.ok()) {
    findings.fault(
        "job", identity.status().message(),
        "set SK_BOOTSTRAP to the launcher that counts: env, openmpi, slurm, flux or hydra; "
        "single where there is none");
  } else if (identity.value() && identity.value()->world_size > 1) {
    return be_rank(options, *identity.value());
  }
  // A job of one rank, which may have been started through what closes a secret's descriptor.
  const bool alone = identity.ok() && identity.value() && identity.value()->can_meet_here();
  check_machine(&findings, alone ? Run::kRanksHere : Run::kMachine);
  check_live(options, &findings);
  return report(options, findings, Json::object(), "");
}

}  // namespace
}  // namespace sk::doctor

int run_doctor(int argc, char** argv) {
  const auto options = sk::doctor::parse(argc, argv);
  if (!options.ok()) {
    std::fprintf(stderr, "sk doctor: %s\nsk doctor --help says more\n",
                 options.status().message().c_str());
    return 2;
  }
  if (options.value().help) return std::fputs(sk::doctor::kUsage, stdout), 0;
  return sk::doctor::examine(options.value());
}
