#include "tools/sk_doctor/logind.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

namespace sk::doctor {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kSystemUserMax = 999;

// What a file says of RemoveIPC. `comments`: a shipped file names the defaults in comments, which
// distributions change.
std::optional<bool> removal_in(const fs::path& path, bool comments) {
  std::optional<bool> said;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    line.erase(
        std::remove_if(line.begin(), line.end(), [](char c) { return c == ' ' || c == '\t'; }),
        line.end());
    if (comments && line.starts_with('#')) line.erase(0, 1);
    if (!line.starts_with("RemoveIPC=")) continue;
    const std::string value = line.substr(line.find('=') + 1);
    said = value != "no" && value != "false" && value != "0" && value != "off";
  }
  return said;
}

}  // namespace

bool logind_removes_files(const std::string& root, uid_t user, const std::string& name) {
  std::error_code none;
  if (user <= kSystemUserMax || !fs::exists(root + "/run/systemd/users", none)) return false;
  if (fs::exists(root + "/var/lib/systemd/linger/" + name, none)) return false;
  bool removes = true;  // What systemd itself has.
  for (const bool comments : {true, false}) {
    for (const char* folder : {"/usr/lib/systemd", "/etc/systemd"})
      removes = removal_in(root + folder + "/logind.conf", comments).value_or(removes);
  }
  std::map<std::string, fs::path>
      parts;  // By name; of two that have one the later folder's counts.
  for (const char* folder : {"/usr/lib/systemd", "/run/systemd", "/etc/systemd"}) {
    for (const auto& entry : fs::directory_iterator(root + folder + "/logind.conf.d", none))
      if (entry.path().extension() == ".conf") parts[entry.path().filename()] = entry.path();
  }
  for (const auto& [file, path] : parts) removes = removal_in(path, false).value_or(removes);
  return removes;
}

}  // namespace sk::doctor
