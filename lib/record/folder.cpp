#include "lib/record/folder.h"

#include <dirent.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "lib/base/flag.h"

namespace sk::record {
namespace {

constexpr int64_t kKeepMax = 10 * 365 * 86400LL;

std::string parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

bool is_memory(const std::string& path) {
  struct statfs what = {};
  return statfs(path.c_str(), &what) == 0 &&
         (what.f_type == TMPFS_MAGIC || what.f_type == RAMFS_MAGIC);
}

template <typename Number>
bool take(std::string_view& text, Number& value, int base) {
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (code != std::errc()) return false;
  text.remove_prefix(size_t(stop - text.data()));
  return true;
}

}  // namespace

std::optional<std::string> process_env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

Result<Settings> read_settings(const EnvLookup& env) {
  Settings settings;
  SK_ASSIGN_OR_RETURN(settings.on, parse_flag("SK_RECORD", env("SK_RECORD").value_or("1")));
  settings.folder = env("SK_RECORD_DIR").value_or("");
  if (!settings.folder.empty() && settings.folder[0] != '/') {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "SK_RECORD_DIR is \"{}\": it must be the path of a folder, from / on",
                 settings.folder);
  }
  while (settings.folder.size() > 1 && settings.folder.back() == '/') settings.folder.pop_back();
  if (const auto keep = env("SK_RECORD_KEEP_S")) {
    std::string_view text = *keep;
    if (!take(text, settings.keep_s, 10) || !text.empty() || settings.keep_s < 0 ||
        settings.keep_s > kKeepMax) {
      return error(SK_ERR_INVALID_ARGUMENT,
                   "SK_RECORD_KEEP_S is \"{}\": it must be a number of seconds from 0 to {}", *keep,
                   kKeepMax);
    }
  }
  return settings;
}

std::vector<std::string> folders(const Settings& settings, const EnvLookup& env) {
  if (!settings.folder.empty()) return {settings.folder};
  const std::string own = fmt::format("superkernel-{}", geteuid());
  std::vector<std::string> all = {"/dev/shm/" + own};
  const std::string runtime = env("XDG_RUNTIME_DIR").value_or("");
  if (runtime.starts_with('/')) all.push_back(runtime + "/superkernel-records");
  all.push_back("/tmp/" + own + "-records");
  return all;
}

Status check_folder(const std::string& path) {
  struct stat what = {};
  if (lstat(path.c_str(), &what) != 0) {
    if (errno == ENOENT || errno == ENOTDIR)
      return error(SK_ERR_PEER_LOST, "there is no folder {}", path);
    return system_error(path);
  }
  if (S_ISDIR(what.st_mode) && what.st_uid == geteuid() && (what.st_mode & 077) == 0) return {};
  return error(SK_ERR_TRUST, "{} must be a folder of user {} with mode 0700", path, geteuid());
}

Status make_folder(const std::string& path, bool must_be_memory) {
  if (must_be_memory && !is_memory(parent_of(path)))
    return error(SK_ERR_UNSUPPORTED, "{} is not kept in memory", parent_of(path));
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return system_error("mkdir " + path);
  return check_folder(path);
}

std::string file_name(uint64_t space, int64_t pid, uint64_t start_time) {
  return fmt::format("{:x}-{}-{}{}", space, pid, start_time, kSuffix);
}

std::optional<FileName> parse_file_name(const std::string& name) {
  FileName out;
  std::string_view text = name;
  const auto dash = [&] {
    const bool is = text.starts_with('-');
    if (is) text.remove_prefix(1);
    return is;
  };
  if (!take(text, out.space, 16) || !dash() || !take(text, out.pid, 10) || !dash() ||
      !take(text, out.start_time, 10) || text != kSuffix || out.pid <= 0) {
    return std::nullopt;
  }
  return out;
}

std::vector<std::string> list_records(const std::string& folder) {
  std::vector<std::string> names;
  DIR* const open = opendir(folder.c_str());
  if (open == nullptr) return names;
  while (const dirent* entry = readdir(open)) {
    if (std::string_view(entry->d_name).ends_with(kSuffix)) names.emplace_back(entry->d_name);
  }
  closedir(open);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace sk::record
