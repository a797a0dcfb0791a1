// `sk kernel`: the program that a kernelspec names. Jupyter starts it with a connection file.
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/flag.h"
#include "tools/sk/verbs.h"
#include "tools/sk_kernel/front.h"
#include "tools/sk_kernel/lease.h"
#include "tools/sk_kernel/rank_count.h"
#include "tools/sk_kernel/spec_places.h"
#include "transport/local/process.h"

namespace sk::kernel {
namespace {

constexpr const char* kUsage =
    "usage: sk kernel -f CONNECTION_FILE [--ranks N] [--any-address] [--language NAME]\n"
    "                 [--language-version V] [--preload MODULES] [-- PROGRAM ARGUMENT...]\n\n"
    "Serves a notebook: every cell runs on every rank. The number of ranks is SK_NRANKS, else\n"
    "--ranks, else one per GPU, else one per core. PROGRAM is what a rank runs; default\n"
    "python3 -m libsk.kernel. With --any-address the connection file may name 0.0.0.0 or the "
    "like.\nPython's ranks share what SK_PRELOAD names, else --preload: numpy,torch.\n";

struct Options {
  std::string connection_file;
  std::string ranks;
  std::string preload;
  bool any_address = false;
  Language language;
  std::vector<const char*> program;  // Ends with a null pointer.
};

Result<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--") {
      options.program.assign(argv + i + 1, argv + argc);
      break;
    }
    if (argument == "--any-address") {
      options.any_address = true;
      continue;
    }
    std::string* const value = argument == "-f"                   ? &options.connection_file
                               : argument == "--ranks"            ? &options.ranks
                               : argument == "--preload"          ? &options.preload
                               : argument == "--language"         ? &options.language.name
                               : argument == "--language-version" ? &options.language.version
                                                                  : nullptr;
    if (value == nullptr || i + 1 == argc)
      return error(SK_ERR_INVALID_ARGUMENT, "{} {}", argument,
                   value == nullptr ? "is no option of sk kernel" : "needs a value");
    *value = argv[++i];
  }
  if (options.connection_file.empty())
    return error(SK_ERR_INVALID_ARGUMENT, "no connection file given (-f FILE)");
  if (options.program.empty()) options.program = {"python3", "-m", "libsk.kernel"};
  options.program.push_back(nullptr);
  return options;
}

// Python's ranks are forked from one warmed process. SK_TEMPLATE=0 starts each by itself: for a
// package that cannot live through a fork.
Result<bool> forks_ranks(const std::vector<const char*>& program) {
  const char* value = std::getenv("SK_TEMPLATE");
  SK_ASSIGN_OR_RETURN(const bool wanted, parse_flag("SK_TEMPLATE", value == nullptr ? "1" : value));
  const size_t count = program.size() - 1;  // The last is a null pointer.
  return wanted && count >= 3 && std::string_view(program[count - 2]) == "-m" &&
         std::string_view(program[count - 1]) == "libsk.kernel";
}

// Interrupts and ends are read as data; every thread inherits the block.
Result<int> block_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  if (sigprocmask(SIG_BLOCK, &set, nullptr) != 0) return system_error("sigprocmask");
  const int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  if (fd < 0) return system_error("signalfd");
  signal(SIGPIPE, SIG_IGN);
  return fd;
}

Result<int> serve(const Options& options) {
  SK_ASSIGN_OR_RETURN(const int32_t ranks, choose_rank_count(this_machine(), options.ranks));
  SK_ASSIGN_OR_RETURN(const Connection connection,
                      read_connection_file(options.connection_file, options.any_address));
  SK_ASSIGN_OR_RETURN(const int signal_fd, block_signals());
  SK_ASSIGN_OR_RETURN(const auto channels, Channels::bind(connection));
  SK_ASSIGN_OR_RETURN(const std::string id, random_id());
  SK_ASSIGN_OR_RETURN(const bool forks, forks_ranks(options.program));
  SK_ASSIGN_OR_RETURN(const Lease lease, choose_lease(connection.key));
  PreloadChoice preload = PreloadChoice::make(options.preload, std::getenv("SK_PRELOAD"),
                                              options.connection_file, connection.key);
  const std::string why_no_preload =
      forks ? "" : "only ranks of Python share modules, and only forked ones (SK_TEMPLATE)";
  const OpenSession open = [&](const Names& shared) -> Result<OpenedSession> {
    const std::string program = options.program[0];
    if (const std::string why = why_not_startable(program); !why.empty())
      return error(SK_ERR_INVALID_ARGUMENT,
                   "the program that this kernel was installed for cannot be started: {}: {}. "
                   "Run `sk install` in the environment that the ranks should use; `sk list` shows "
                   "the kernels, `sk remove NAME` takes one away",
                   program, why);
    sk_session_config config = {};
    config.struct_size = sizeof config;
    config.ranks = ranks;
    config.argv = options.program.data();
    const std::string line = "SK_PRELOAD=" + joined(shared, ",");
    const char* const env[] = {line.c_str(), nullptr};
    if (!shared.empty() || std::getenv("SK_PRELOAD") != nullptr) config.env = env;
    config.flags = SK_SESSION_NOTEBOOK | (forks ? SK_SESSION_TEMPLATE : 0);
    return attach_or_open(lease, config);
  };
  Front front(*channels, open, Wire(connection.key, id), options.language, ranks, signal_fd,
              std::move(preload), why_no_preload);
  const int result = front.run();
  if (sk_session_close(front.session()) != SK_OK) return Status(SK_ERR_TIMEOUT, sk_last_error());
  return result;
}

int run(int argc, char** argv) {
  if (argc == 2 && (std::strcmp(argv[1], "--help") == 0 || std::strcmp(argv[1], "-h") == 0)) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  const auto options = parse(argc, argv);
  if (!options.ok()) {
    std::fprintf(stderr, "sk kernel: %s\nsk kernel --help says more\n",
                 options.status().message().c_str());
    return 2;
  }
  (void)sk::local::raise_descriptor_limit();  // One for each connection of a client.
  const auto result = serve(options.value());
  if (result.ok()) return result.value();
  std::fprintf(stderr, "sk kernel: %s\n", result.status().message().c_str());
  return result.status().code() == SK_ERR_INVALID_ARGUMENT ? 2 : 1;
}

}  // namespace
}  // namespace sk::kernel

int run_kernel(int argc, char** argv) { return sk::kernel::run(argc, argv); }
