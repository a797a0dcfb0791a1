// Where flight records lie, and what the environment says of them.
#ifndef SK_LIB_RECORD_FOLDER_H_
#define SK_LIB_RECORD_FOLDER_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/status.h"

namespace sk::record {

using EnvLookup = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> process_env(const char* name);

struct Settings {
  bool on = true;                 // SK_RECORD.
  std::string folder;             // SK_RECORD_DIR; empty: as folders() says.
  int64_t keep_s = 24 * 60 * 60;  // SK_RECORD_KEEP_S: of what has ended.
};
Result<Settings> read_settings(const EnvLookup& env);

// Where a process of this user may have put its record; the first that will do has it. They are
// kept in memory: a page of a file on a disk is closed to its writer whenever it is written back,
// and a call would wait for the disk then.
std::vector<std::string> folders(const Settings& settings, const EnvLookup& env);

// Makes the folder unless it is there. SK_ERR_TRUST where it is not this user's alone.
Status make_folder(const std::string& path, bool must_be_memory);

// OK where `path` is a folder of this user with mode 0700; SK_ERR_PEER_LOST where nothing is there.
Status check_folder(const std::string& path);

inline constexpr const char* kSuffix = ".skrecord";
// A process's name in its folder: "SPACE-PID-START.skrecord".
std::string file_name(uint64_t space, int64_t pid, uint64_t start_time);
struct FileName {
  uint64_t space = 0;
  int64_t pid = 0;
  uint64_t start_time = 0;
};
std::optional<FileName> parse_file_name(const std::string& name);

// The records in a folder: names, sorted.
std::vector<std::string> list_records(const std::string& folder);

}  // namespace sk::record

#endif  // SK_LIB_RECORD_FOLDER_H_
