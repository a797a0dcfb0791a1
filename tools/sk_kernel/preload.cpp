#include "tools/sk_kernel/preload.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>

#include "tools/sk_kernel/content.h"
#include "transport/local/fd.h"

namespace sk::kernel {
namespace {

constexpr size_t kNamesMax = 64;
constexpr size_t kBytesMax = 4096;  // Of all names together.

// What stands beside names in import statements, and is none.
constexpr const char* kNoNames[] = {"import", "from", "as", "__main__"};

// a.b_2: words of letters, digits and "_" with dots between them. Letters beyond ASCII are Python's
// to judge.
bool is_module(const std::string& name) {
  bool begins = true;
  for (const char each : name) {
    const auto c = static_cast<unsigned char>(each);
    const bool letter = std::isalpha(c) != 0 || c == '_' || c >= 0x80;
    if (begins ? !letter : !letter && std::isdigit(c) == 0 && c != '.') return false;
    begins = c == '.';
  }
  return !begins;
}

double number_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

// The file's text, if it is one that this user wrote.
std::optional<std::string> own_text(const std::string& path) {
  const local::Fd file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (!file.open() || fstat(file.get(), &status) != 0 || status.st_uid != geteuid() ||
      !S_ISREG(status.st_mode))
    return std::nullopt;
  std::string text(kBytesMax + 1, '\0');
  const ssize_t n = read(file.get(), text.data(), text.size());
  if (n < 0) return std::nullopt;
  text.resize(static_cast<size_t>(n));
  return text;
}

}  // namespace

Result<Names> parse_modules(const std::string& where, const std::string& text) {
  Names names;
  const auto is_between = [](char c) { return c == ',' || c == ' ' || c == '\t' || c == '\n'; };
  for (auto at = text.begin(); at != text.end();) {
    at = std::find_if_not(at, text.end(), is_between);
    const auto end = std::find_if(at, text.end(), is_between);
    const std::string name(at, end);
    at = end;
    if (name.empty()) continue;
    if (!is_module(name) || std::count(std::begin(kNoNames), std::end(kNoNames), name) != 0)
      return error(SK_ERR_INVALID_ARGUMENT,
                   "{} has \"{}\", which is no name of a module; names such as "
                   "numpy,matplotlib.pyplot are allowed, and none",
                   where, name);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  if (names.size() > kNamesMax || text.size() > kBytesMax)
    return error(SK_ERR_INVALID_ARGUMENT,
                 "{} has {} names in {} bytes; at most {} are allowed, in {} bytes", where,
                 names.size(), text.size(), kNamesMax, kBytesMax);
  const bool none = std::find(names.begin(), names.end(), "none") != names.end();
  if (none && names.size() > 1)
    return error(SK_ERR_INVALID_ARGUMENT, "{} has none beside {}; none stands alone", where,
                 names[0] == "none" ? names[1] : names[0]);
  if (none) names.clear();
  return names;
}

std::string joined(const Names& names, const char* between) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : between) + name;
  return text;
}

PreloadChoice PreloadChoice::make(const std::string& installed, const char* variable,
                                  const std::string& connection_file, const std::string& key) {
  PreloadChoice choice;
  // Not a name with the kernel's in it: Jupyter takes every file that has one for a connection
  // file.
  const std::filesystem::path path = std::filesystem::absolute(connection_file);
  choice.file_ =
      path.parent_path() / ("sk-preload-" + keyed_hash(key, path.string()).substr(0, 16));
  auto names = variable != nullptr ? parse_modules("SK_PRELOAD", variable)
                                   : parse_modules("--preload", installed);
  if (const auto told = own_text(choice.file_))
    if (auto chosen = parse_modules("", *told); chosen.ok()) names = std::move(chosen);
  if (names.ok())
    choice.names_ = std::move(*names);
  else
    choice.flaw_ = names.status().message();
  return choice;
}

Status PreloadChoice::choose(Names names) {
  const std::string text = names.empty() ? "none\n" : joined(names, ",") + "\n";
  names_ = std::move(names);
  flaw_.clear();
  forget();
  const local::Fd file(
      open(file_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.open() ||
      write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return system_error("writing " + file_);
  return {};
}

void PreloadChoice::forget() const { (void)unlink(file_.c_str()); }

std::optional<PreloadNote> read_preload_note(const Json& note) {
  if (!note.is_object()) return std::nullopt;
  PreloadNote read;
  read.importing = text_of(note, "importing");
  read.number = static_cast<int64_t>(number_of(note, "number"));
  read.count = static_cast<int64_t>(number_of(note, "count"));
  read.seconds = number_of(note, "seconds");
  const auto done = note.find("done");
  if (read.importing.empty() && (done == note.end() || !done->is_array())) return std::nullopt;
  for (const Json& module : read.importing.empty() ? *done : Json::array()) {
    if (!module.is_object()) continue;
    read.modules.push_back({text_of(module, "name"), number_of(module, "seconds"),
                            number_of(module, "memory_bytes"), text_of(module, "why_not"),
                            text_of(module, "printed")});
  }
  return read;
}

}  // namespace sk::kernel
