// The library, what it computes on, and its GPU.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "tools/sk_doctor/checks.h"
#include "tools/sk_doctor/library.h"
#include "tools/sk_kernel/spec_places.h"

namespace sk::doctor {
namespace {

constexpr const char* kReinstall =
    "start the sk of that installation (command -v sk), or install both anew from one wheel";

// What else programs of this environment may load in place of the one that was chosen.
void check_other(const char* who, const std::string& name, const Probe& chosen,
                 Findings* findings) {
  const Probe other = probe(name, Wanted::kVersion);
  if (!other.failure.empty()) {
    // The loader knows none: so be it.
    if (std::string(who) != "SK_LIBRARY" || other.not_started) return;
    findings->fault("library", fmt::format("SK_LIBRARY is \"{}\": {}", name, other.failure),
                    "unset SK_LIBRARY, or let it name a libsk.so.0");
  } else if (other.version != chosen.version) {
    findings->fault("library",
                    fmt::format("{} gives programs libsk {}, {}, and this installation's is {}, {}",
                                who, other.version, other.path, chosen.version, chosen.path),
                    std::string(who) == "SK_LIBRARY"
                        ? "unset SK_LIBRARY"
                        : fmt::format("LD_LIBRARY_PATH={} before the program, or ldconfig",
                                      std::filesystem::path(chosen.path).parent_path().string()));
  } else if (other.path != chosen.path) {
    findings->info("library", fmt::format("{} gives programs another file of the same version, {}",
                                          who, other.path));
  }
}

}  // namespace

Probe check_library(Findings* findings) {
  const std::string name = chosen_library();
  Probe probed = probe(name, Wanted::kCpu);
  if (!probed.failure.empty()) {
    findings->fault(
        "library", fmt::format("{} cannot be used: {}", name, probed.failure),
        probed.not_started
            ? "raise the limit that the sentence names (ulimit -n, ulimit -u)"
            : "install libsk (docs/install.md), or let LD_LIBRARY_PATH name its folder");
    return probed;
  }
  if (probed.version != own_version()) {
    findings->fault("library",
                    fmt::format("this sk is {}, {}, and the libsk that its ranks load {}, {}",
                                own_version(), kernel::this_program(), probed.version, probed.path),
                    kReinstall);
  } else {
    findings->ok("library", fmt::format("libsk {}, {}", probed.version, probed.path));
  }
  check_other("the loader", "libsk.so.0", probed, findings);
  if (const char* named = std::getenv("SK_LIBRARY"); named != nullptr && *named != '\0')
    check_other("SK_LIBRARY", named, probed, findings);
  return probed;
}

void check_isa(const Probe& library, Findings* findings) {
  if (!library.failure.empty()) return;
  if (!library.refused.empty()) {
    findings->fault("isa", fmt::format("a world of one is refused: {}", library.refused),
                    "set right what the sentence names: a variable (docs/env.md), or a limit");
    return;
  }
  const char* wanted = std::getenv("SK_CPU_ISA");
  const std::string used = library.isa();
  if (used.empty()) {
    findings->info("isa", "not known: the library's log does not tell");
  } else if (wanted == nullptr || *wanted == '\0') {
    findings->ok("isa", fmt::format("{}, the best that this machine has", used));
  } else {
    const std::string best = probe(library.path, Wanted::kCpuAtItsBest).isa();
    if (best == used) {
      findings->ok(
          "isa", fmt::format("{}, the best that this machine has; SK_CPU_ISA is {}", used, wanted));
    } else {
      findings->limit("isa", fmt::format("{} by SK_CPU_ISA; this machine has {}", used, best),
                      "unset SK_CPU_ISA");
    }
  }
}

void check_gpu(const Probe& library, Findings* findings) {
  if (!library.failure.empty()) return;
  const Json gpus = library.facts.value("gpus", Json::array());
  const std::string driver = library.facts.value("driver", "");
  const Probe gpu = probe(library.path, Wanted::kGpu);
  const std::string there = fmt::format("{} GPU{}{}", gpus.size(), gpus.size() == 1 ? "" : "s",
                                        driver.empty() ? "" : fmt::format(", driver {}", driver));
  if (gpu.failure.empty() && gpu.refused.empty()) {
    findings->ok("gpu", fmt::format("{}; a communicator on the first: {}", there, gpu.target));
    return;
  }
  const std::string why = gpu.failure.empty() ? gpu.refused : gpu.failure;
  if (gpus.empty()) {
    findings->info("gpu", fmt::format("none is used: {}", why));
  } else {
    findings->limit("gpu", fmt::format("{}, which libsk cannot use: {}", there, why),
                    "docs/troubleshooting.md#gpus has the sentence; the CPU is used meanwhile");
  }
}

}  // namespace sk::doctor
