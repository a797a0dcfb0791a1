// sk topo: what this or another machine looks like.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "lib/topo/import.h"
#include "lib/topo/synthetic.h"
#include "lib/topo/text.h"
#include "tools/sk/verbs.h"

namespace {

constexpr char kUsage[] =
    "usage: sk topo [--xml FILE | --text FILE | --synthetic SPEC | --root DIR] [--dump | "
    "--summary]\n"
    "\n"
    "Shows this machine as a tree, or the one that is told:\n"
    "  --xml FILE        hwloc's XML (lstopo FILE.xml) or NCCL's (NCCL_TOPO_DUMP_FILE)\n"
    "  --text FILE       what --dump wrote\n"
    "  --synthetic SPEC  words like \"hosts:2 numa:2 cores:8 gpus:4 nics:2\", each per host but\n"
    "                    for hosts; also sockets, threads (per core), memory (GiB per NUMA node)\n"
    "  --root DIR        a recorded tree of /sys and /proc in place of this machine's\n"
    "FILE may be - for the standard input.\n"
    "\n"
    "  --dump            as text, which --text reads back\n"
    "  --summary         how many there are of each\n"
    "\n"
    "Exit status: 0, 1 when the machine or file cannot be read, 2 for a wrong command line.\n";

struct Options {
  std::string source;  // The option that names the machine; empty: this one.
  std::string value;
  std::string form;
  bool help = false;
};

sk::Result<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--help" || option == "-h") {
      options.help = true;
      return options;
    }
    const bool source =
        option == "--xml" || option == "--text" || option == "--synthetic" || option == "--root";
    if (!source && option != "--dump" && option != "--summary") {
      return sk::error(SK_ERR_INVALID_ARGUMENT, "\"{}\" is no option", option);
    }
    std::string& slot = source ? options.source : options.form;
    if (!slot.empty()) {
      return sk::error(SK_ERR_INVALID_ARGUMENT, "{} and {} do not go together", slot, option);
    }
    slot = option;
    if (!source) continue;
    if (++i == argc) return sk::error(SK_ERR_INVALID_ARGUMENT, "{} needs a value", option);
    options.value = argv[i];
  }
  return options;
}

sk::Result<std::string> read_file(const std::string& path) {
  std::FILE* in = path == "-" ? stdin : std::fopen(path.c_str(), "rb");
  if (in == nullptr) return sk::system_error(path);
  std::string out;
  char chunk[65536];
  for (size_t got; (got = std::fread(chunk, 1, sizeof(chunk), in)) > 0;) out.append(chunk, got);
  const bool bad = std::ferror(in) != 0;
  sk::Status status = bad ? sk::system_error(path) : sk::Status();
  if (in != stdin) std::fclose(in);
  if (bad) return status;
  return out;
}

sk::Result<sk::topo::Graph> load(const Options& options) {
  if (options.source == "--synthetic") return sk::topo::synthesize(options.value);
  if (options.source == "--xml" || options.source == "--text") {
    SK_ASSIGN_OR_RETURN(const std::string text, read_file(options.value));
    auto graph = options.source == "--xml" ? sk::topo::from_xml(text) : sk::topo::parse(text);
    if (!graph.ok()) return std::move(graph.status()).with_context(options.value);
    return graph;
  }
  if (options.source == "--root") {
    const std::string cpus = options.value + "/sys/devices/system/cpu";
    if (access(cpus.c_str(), R_OK) != 0) return sk::system_error(cpus);
    // hwloc takes the place from its environment only; no thread of ours reads it meanwhile. It
    // must not ask this machine's processor about that one.
    setenv("HWLOC_FSROOT", options.value.c_str(), 1);
    setenv("HWLOC_COMPONENTS", "-x86", 1);
  }
  return sk::topo::discover();
}

std::string summary(const sk::topo::Graph& graph) {
  const sk::topo::Summary s = sk::topo::summarize(graph);
  return fmt::format(
      "hosts             {}\nsockets           {}\nNUMA nodes        {}\ncores             {}\n"
      "hardware threads  {}\nGPUs              {}\nNICs              {}\nmemory bytes      {}\n",
      s.hosts, s.sockets, s.numa_nodes, s.cores, s.threads, s.gpus, s.nics, s.memory_bytes);
}

int fail(const sk::Status& status, int code) {
  std::fprintf(stderr, "sk topo: %s\n", status.message().c_str());
  return code;
}

}  // namespace

int run_topo(int argc, char** argv) {
  const auto options = parse(argc, argv);
  if (!options.ok()) {
    fail(options.status(), 2);
    std::fputs("sk topo --help says more\n", stderr);
    return 2;
  }
  if (options.value().help) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  const auto graph = load(options.value());
  if (!graph.ok()) return fail(graph.status(), 1);
  const std::string& form = options.value().form;
  const std::string text = form == "--dump"      ? sk::topo::dump(graph.value())
                           : form == "--summary" ? summary(graph.value())
                                                 : sk::topo::describe(graph.value());
  const bool written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  return written ? 0 : fail(sk::system_error("cannot write"), 1);
}
