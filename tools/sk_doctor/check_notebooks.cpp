// Notebook kernels: whether what they name is still there.
#include <filesystem>
#include <fstream>

#include "lib/base/status.h"
#include "tools/sk_doctor/checks.h"
#include "tools/sk_kernel/spec_places.h"

namespace sk::doctor {
namespace {

// Of the words of a kernel's command line, those that are paths of files which are not there, but
// for the two programs: Julia's ranks are started from sources and by a library.
std::vector<std::string> gone_files(const std::string& folder) {
  std::ifstream file(folder + "/kernel.json");
  const Json spec = Json::parse(file, nullptr, false);
  std::vector<std::string> gone;
  if (!spec.is_object() || !spec.contains("argv")) return gone;
  for (const Json& word : spec["argv"]) {
    std::string path = word.is_string() ? word.get<std::string>() : "";
    if (const size_t equals = path.find("=/"); equals != std::string::npos)
      path = path.substr(equals + 1);
    std::error_code none;
    if (!path.empty() && path[0] == '/' && !std::filesystem::exists(path, none))
      gone.push_back(path);
  }
  return gone;
}

}  // namespace

void check_notebooks(Findings* findings) {
  const auto specs = kernel::find_specs(kernel::kernel_folders({}));
  if (specs.empty()) {
    findings->info("notebooks", "no notebook kernel is installed (sk install)");
    return;
  }
  for (const kernel::InstalledSpec& spec : specs) {
    const std::string what =
        fmt::format("kernel {} ({})", spec.name,
                    spec.ranks.empty() ? "ranks chosen at each start" : spec.ranks + " ranks");
    const std::vector<std::string> gone = gone_files(spec.folder);
    const std::string missing = !spec.missing.empty() ? spec.missing : gone.empty() ? "" : gone[0];
    if (missing.empty()) {
      findings->ok("notebooks", fmt::format("{} starts {}", what, spec.program));
    } else {
      findings->fault(
          "notebooks",
          fmt::format("{} in {} names {}, which cannot be started or is gone", what, spec.folder,
                      missing),
          fmt::format("sk remove {}, or sk install --name {} again", spec.name, spec.name));
    }
  }
}

}  // namespace sk::doctor
