// sk run: a program as N ranks on this host.
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>

#include "lib/base/workers.h"
#include "lib/base/world.h"
#include "tools/sk/job_env.h"
#include "tools/sk/launch.h"
#include "tools/sk/verbs.h"
#include "transport/bootstrap/identity.h"

namespace {

constexpr char kUsage[] =
    "usage: sk run -n N [--workers W] [--timeout S] [--tag] [--keep-going] [--] PROGRAM\n"
    "              [ARGUMENT...]\n"
    "\n"
    "Starts PROGRAM N times on this host, as ranks 0 to N-1 that find each other by their\n"
    "environment: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and what else torchrun sets, JAX_*,\n"
    "and libsk's own variables. When a rank fails, the others are ended.\n"
    "What a rank leaves in its process group ends with it.\n"
    "\n"
    "Signals go on to the ranks, also SIGUSR1, SIGUSR2, SIGQUIT, SIGALRM, SIGXCPU and real-time\n"
    "ones; a second SIGINT, SIGTERM or SIGHUP ends them. What is ignored at the start stays so.\n"
    "\n"
    "  -n N          number of ranks, 1 to 4096\n"
    "  --workers W   threads of each rank that run tiles, 1 to 256 (SK_WORKERS)\n"
    "  --timeout S   end all ranks after S seconds\n"
    "  --tag         put \"[rank N] \" before each line of output\n"
    "  --keep-going  when a rank fails, leave the others: they may go on without it\n"
    "\n"
    "Exit status: 0 when every rank's was; else that of the rank that failed first, 128 + N when\n"
    "signal N killed it; 124 after --timeout; 126 or 127 when PROGRAM could not be started; 2 for\n"
    "a wrong command line.\n";

struct Options {
  sk::tools::LaunchConfig launch{.world_size = 0};
  int workers = 0;
  bool help = false;
};

sk::Result<int> parse_count(const std::string& option, const char* text, int most) {
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, code] = std::from_chars(text, end, value);
  if (code != std::errc() || stop != end || value < 1 || value > most) {
    return sk::error(SK_ERR_INVALID_ARGUMENT, "{} is \"{}\": it must be a number from 1 to {}",
                     option, text, most);
  }
  return value;
}

sk::Result<int64_t> parse_seconds(const std::string& option, const char* text) {
  double value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, code] = std::from_chars(text, end, value);
  if (code != std::errc() || stop != end || !(value >= 0.001) || value > 1e8) {
    return sk::error(SK_ERR_INVALID_ARGUMENT,
                     "{} is \"{}\": it must be a number of seconds from 0.001 to 1e8", option,
                     text);
  }
  return int64_t(value * 1e9);
}

sk::Result<Options> parse(int argc, char** argv) {
  Options options;
  int i = 1;
  for (; i < argc && argv[i][0] == '-'; ++i) {
    const std::string option = argv[i];
    if (option == "--") {
      ++i;
      break;
    }
    if (option == "--help" || option == "-h") {
      options.help = true;
      return options;
    }
    if (option == "--tag") {
      options.launch.tag = true;
      continue;
    }
    if (option == "--keep-going") {
      options.launch.keep_going = true;
      continue;
    }
    if (option != "-n" && option != "--workers" && option != "--timeout") {
      return sk::error(SK_ERR_INVALID_ARGUMENT, "\"{}\" is no option", option);
    }
    if (++i == argc) return sk::error(SK_ERR_INVALID_ARGUMENT, "{} needs a value", option);
    if (option == "-n") {
      SK_ASSIGN_OR_RETURN(options.launch.world_size,
                          parse_count(option, argv[i], sk::kWorldSizeMax));
    } else if (option == "--workers") {
      SK_ASSIGN_OR_RETURN(options.workers, parse_count(option, argv[i], int(sk::kWorkersMax)));
    } else {
      SK_ASSIGN_OR_RETURN(options.launch.timeout_ns, parse_seconds(option, argv[i]));
    }
  }
  if (options.launch.world_size == 0) {
    return sk::error(SK_ERR_INVALID_ARGUMENT, "the number of ranks is missing: give -n N");
  }
  if (i >= argc) return sk::error(SK_ERR_INVALID_ARGUMENT, "the program to run is missing");
  options.launch.command = argv + i;
  return options;
}

int fail(const sk::Status& status, int code) {
  std::fprintf(stderr, "sk run: %s\n", status.message().c_str());
  return code;
}

}  // namespace

int run_run(int argc, char** argv) {
  const auto options = parse(argc, argv);
  if (!options.ok()) {
    fail(options.status(), 2);
    std::fputs("sk run --help says more\n", stderr);
    return 2;
  }
  if (options.value().help) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  sk::forget_launchers();
  const auto environment =
      sk::tools::JobEnvironment::create(options.value().launch.world_size, options.value().workers);
  if (!environment.ok()) return fail(environment.status(), 1);
  const auto status = sk::tools::launch(options.value().launch, environment.value());
  if (status.ok()) return status.value();
  return fail(status.status(), status.status().code() == SK_ERR_INVALID_ARGUMENT ? 127 : 126);
}
