#include "tools/sk_kernel/spec_places.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace sk::kernel {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kKernels = "/share/jupyter/kernels";

std::string variable(const char* value) { return value == nullptr ? "" : value; }

bool is_program(const std::string& path) { return access(path.c_str(), X_OK) == 0; }

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(':', begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

Result<int> take_place(PlaceOption& option, int i, int argc, char** argv) {
  const std::string argument = argv[i];
  if (argument != "--user" && argument != "--sys-prefix" && argument != "--prefix") return 0;
  if (!option.where.empty())
    return error(SK_ERR_INVALID_ARGUMENT, "{} beside {}: give one place", argument, option.where);
  option.where = argument;
  if (argument != "--prefix") return 1;
  if (i + 1 >= argc) return error(SK_ERR_INVALID_ARGUMENT, "--prefix needs a value after it");
  option.prefix = argv[i + 1];
  return 2;
}

std::string this_program() {
  char path[PATH_MAX + 1] = {};
  const ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
  return {path, n > 0 ? static_cast<size_t>(n) : 0};
}

std::string library_beside_program() {
  const fs::path here = fs::path(this_program()).parent_path();
  std::error_code none;
  // PREFIX/bin, libsk/bin of a package, build/tools/sk.
  for (const char* place : {"../lib/libsk.so.0", "../lib/x86_64-linux-gnu/libsk.so.0",
                            "../lib/aarch64-linux-gnu/libsk.so.0", "../lib64/libsk.so.0",
                            "../libsk.so.0", "../../libsk.so.0"})
    if (fs::exists(here / place, none)) return (here / place).lexically_normal();
  return "";
}

std::string user_kernels() {
  const std::string data = variable(std::getenv("JUPYTER_DATA_DIR"));
  if (!data.empty()) return data + "/kernels";
  const std::string share = variable(std::getenv("XDG_DATA_HOME"));
  if (!share.empty()) return share + "/jupyter/kernels";
  return variable(std::getenv("HOME")) + "/.local" + kKernels;
}

std::string prefix_kernels(const std::string& prefix) {
  std::error_code none;  // "" has no absolute form: where no environment is, there are none.
  return (fs::absolute(prefix, none).lexically_normal() / "share/jupyter/kernels").string();
}

std::string environment_prefix() {
  // ENV/lib/python3.x/site-packages/libsk/bin/sk
  fs::path above = this_program();
  for (int i = 0; i < 6; ++i) above = above.parent_path();
  if (is_program(above / "bin" / "python")) return above;
  for (const std::string& folder : parts_of(variable(std::getenv("PATH"))))
    if (is_program(folder + "/python3")) return fs::path(folder).parent_path();
  return "";
}

std::vector<std::string> kernel_folders(const PlaceOption& option) {
  if (option.where == "--user") return {user_kernels()};
  const std::string environment = environment_prefix();
  if (option.where == "--prefix") return {prefix_kernels(option.prefix)};
  if (option.where == "--sys-prefix") return {prefix_kernels(environment)};
  std::vector<std::string> folders;
  for (const std::string& path : parts_of(variable(std::getenv("JUPYTER_PATH"))))
    folders.push_back(path + "/kernels");
  folders.push_back(user_kernels());
  if (!environment.empty()) folders.push_back(prefix_kernels(environment));
  for (const char* prefix : {"/usr/local", "/usr"}) folders.push_back(prefix_kernels(prefix));
  std::vector<std::string> once;
  for (const std::string& folder : folders)
    if (std::find(once.begin(), once.end(), folder) == once.end()) once.push_back(folder);
  return once;
}

std::string why_not_startable(const std::string& program) {
  if (program.find('/') == std::string::npos || is_program(program)) return "";
  return std::strerror(errno);
}

std::optional<InstalledSpec> read_spec(const std::string& folder) {
  std::ifstream file(folder + "/kernel.json");
  const Json spec = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!spec.is_object() || !spec.contains("argv") || !spec["argv"].is_array()) return std::nullopt;
  std::vector<std::string> argv;
  for (const Json& word : spec["argv"]) {
    if (!word.is_string()) return std::nullopt;
    argv.push_back(word.get<std::string>());
  }
  if (argv.size() < 2 || fs::path(argv[0]).filename() != "sk" || argv[1] != "kernel")
    return std::nullopt;
  InstalledSpec found{fs::path(folder).filename(), folder, "", "", "python3", ""};
  for (size_t i = 2; i + 1 < argv.size(); ++i) {
    if (argv[i] == "--ranks") found.ranks = argv[i + 1];
    if (argv[i] == "--preload") found.preload = argv[i + 1];
    if (argv[i] != "--") continue;
    found.program = argv[i + 1];
    break;
  }
  for (const std::string& program : {found.program, argv[0]})
    if (!why_not_startable(program).empty()) found.missing = program;
  return found;
}

std::vector<InstalledSpec> find_specs(const std::vector<std::string>& folders) {
  std::vector<InstalledSpec> specs;
  for (const std::string& folder : folders) {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder, none))
      if (auto spec = read_spec(entry.path())) specs.push_back(std::move(*spec));
  }
  std::stable_sort(specs.begin(), specs.end(),
                   [](const auto& a, const auto& b) { return a.name < b.name; });
  return specs;
}

}  // namespace sk::kernel
