// `sk list` and `sk remove`: the kernelspecs that `sk install` wrote.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "tools/sk/verbs.h"
#include "tools/sk_kernel/spec_places.h"
#include "tools/sk_kernel/table.h"

namespace sk::kernel {
namespace {

constexpr const char* kListUsage =
    "usage: sk list [--user | --sys-prefix | --prefix DIR]\n\n"
    "Lists the notebook kernels that `sk install` made known to Jupyter: their names, how many\n"
    "ranks they start, what the ranks run and whether it still exists, and where they lie.\n";

constexpr const char* kRemoveUsage =
    "usage: sk remove [--user | --sys-prefix | --prefix DIR] NAME...\n\n"
    "Removes kernels that `sk install` made known to Jupyter; other kernels are refused. It asks\n"
    "nothing. A place is needed only where several hold a kernel of the name.\n";

struct Request {
  PlaceOption place;
  std::vector<std::string> names;
};

Result<Request> parse(int argc, char** argv) {
  Request request;
  for (int i = 1; i < argc;) {
    SK_ASSIGN_OR_RETURN(const int taken, take_place(request.place, i, argc, argv));
    i += taken;
    if (taken > 0) continue;
    if (argv[i][0] == '-')
      return error(SK_ERR_INVALID_ARGUMENT, "{} is no option of sk {}", argv[i], argv[0]);
    request.names.emplace_back(argv[i++]);
  }
  return request;
}

bool asks_for_help(int argc, char** argv) {
  return argc == 2 && (std::strcmp(argv[1], "--help") == 0 || std::strcmp(argv[1], "-h") == 0);
}

int usage_error(const char* verb, const std::string& why) {
  std::fprintf(stderr, "sk %s: %s\nsk %s --help says more\n", verb, why.c_str(), verb);
  return 2;
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

// Removes the one kernelspec of this name, or says why not.
Result<std::string> remove(const std::string& name, const std::vector<std::string>& folders) {
  std::vector<std::string> ours, others;
  for (const std::string& folder : folders) {
    const std::string path = fmt::format("{}/{}", folder, name);
    std::error_code none;
    if (name.find('/') != std::string::npos || !std::filesystem::is_directory(path, none)) continue;
    (read_spec(path) ? ours : others).push_back(path);
  }
  if (ours.size() > 1)
    return error(SK_ERR_INVALID_ARGUMENT,
                 "{} lies in several places: {}; name one with --user, --sys-prefix or --prefix",
                 name, joined(ours));
  if (ours.empty() && !others.empty())
    return error(SK_ERR_INVALID_ARGUMENT, "{} is no kernel of SuperKernel, so it stays: {}", name,
                 joined(others));
  if (ours.empty())
    return error(SK_ERR_INVALID_ARGUMENT, "there is no kernel {} in {}", name, joined(folders));
  std::error_code failure;
  std::filesystem::remove_all(ours[0], failure);  // Of a link, the link.
  if (failure) return error(SK_ERR_SYSTEM, "cannot remove {}: {}", ours[0], failure.message());
  return ours[0];
}

int list(int argc, char** argv) {
  if (asks_for_help(argc, argv)) return std::fputs(kListUsage, stdout), 0;
  const auto request = parse(argc, argv);
  if (!request.ok()) return usage_error("list", request.status().message());
  if (!request.value().names.empty()) return usage_error("list", "it takes no name");
  const std::vector<std::string> folders = kernel_folders(request.value().place);
  Table table;
  table.head = {"name", "ranks", "program", "kernelspec"};
  const std::vector<InstalledSpec> specs = find_specs(folders);
  const bool any_preload = std::any_of(specs.begin(), specs.end(),
                                       [](const auto& spec) { return !spec.preload.empty(); });
  if (any_preload) table.head.insert(table.head.begin() + 2, "preload");
  for (const InstalledSpec& spec : specs) {
    std::string program = spec.program;
    if (!spec.missing.empty())
      program += spec.missing == program ? " (is gone)" : " (" + spec.missing + " is gone)";
    table.rows.push_back(
        {spec.name, spec.ranks.empty() ? "by start" : spec.ranks, program, spec.folder});
    if (any_preload) table.rows.back().insert(table.rows.back().begin() + 2, spec.preload);
  }
  if (table.rows.empty())
    std::printf("No kernel of SuperKernel is installed in %s\n", joined(folders).c_str());
  else
    std::printf("%s\n", table.plain().c_str());
  return 0;
}

int remove_all(int argc, char** argv) {
  if (asks_for_help(argc, argv)) return std::fputs(kRemoveUsage, stdout), 0;
  const auto request = parse(argc, argv);
  if (!request.ok()) return usage_error("remove", request.status().message());
  if (request.value().names.empty())
    return usage_error("remove", "it needs a name; sk list shows them");
  int status = 0;
  for (const std::string& name : request.value().names) {
    const auto removed = remove(name, kernel_folders(request.value().place));
    if (removed.ok()) {
      std::printf("Removed %s\n", removed.value().c_str());
    } else {
      std::fprintf(stderr, "sk remove: %s\n", removed.status().message().c_str());
      status = 1;
    }
  }
  return status;
}

}  // namespace
}  // namespace sk::kernel

int run_list(int argc, char** argv) { return sk::kernel::list(argc, argv); }
int run_remove(int argc, char** argv) { return sk::kernel::remove_all(argc, argv); }
