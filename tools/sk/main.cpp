// The `sk` command: `sk VERB ...`. A verb is one line of the table here and one file beside it.
#include <cstdio>
#include <cstring>

#include "sk/base.h"
#include "tools/sk/verbs.h"

namespace {

struct Verb {
  const char* name;
  const char* what;
  int (*run)(int argc, char** argv);
};

constexpr Verb kVerbs[] = {
    {"controller", "serve one session of ranks (started by libsk)", run_controller},
    {"doctor", "say what this machine and this job allow, and what is in the way", run_doctor},
    {"install", "make the notebook kernel known to Jupyter", run_install},
    {"kernel", "serve a notebook (named by kernelspecs)", run_kernel},
    {"list", "list the notebook kernels that were installed", run_list},
    {"ops", "list the operations, or show one", run_ops},
    {"prefix", "print where headers and libraries of this installation lie", run_prefix},
    {"remove", "remove notebook kernels that were installed", run_remove},
    {"run", "start a program as N ranks on this host", run_run},
    {"status", "say where the ranks of running jobs stand, and of dead ones stood", run_status},
    {"topo", "show what this or another machine looks like", run_topo},
};

void print_usage(FILE* to) {
  std::fputs("usage: sk VERB [ARGUMENT...]     (sk VERB --help says more)\n\n", to);
  for (const Verb& verb : kVerbs) std::fprintf(to, "  %-10s %s\n", verb.name, verb.what);
  std::fputs("  --version  print the version\n", to);
}

}  // namespace

int main(int argc, char** argv) {
  const char* name = argc > 1 ? argv[1] : "";
  if (std::strcmp(name, "--help") == 0 || std::strcmp(name, "-h") == 0) {
    print_usage(stdout);
    return 0;
  }
  if (std::strcmp(name, "--version") == 0) {
    std::printf("sk %d.%d.%d\n", SK_VERSION_MAJOR, SK_VERSION_MINOR, SK_VERSION_PATCH);
    return 0;
  }
  for (const Verb& verb : kVerbs) {
    if (std::strcmp(verb.name, name) == 0) return verb.run(argc - 1, argv + 1);
  }
  if (name[0] != '\0') std::fprintf(stderr, "sk: \"%s\" is no verb\n", name);
  print_usage(stderr);
  return 2;
}
