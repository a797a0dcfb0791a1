#include "lib/control/talk/snapshot.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace sk::control {
namespace {

constexpr size_t kMatchesMax = 1000;

bool in_word(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || byte == '_' || (byte >= '0' && byte <= '9') ||
         ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z');
}
bool in_path(char c) { return in_word(c) || c == '.'; }

// Where the dotted name that ends at `end` begins; a magic's % belongs to it.
size_t path_start(std::string_view code, size_t end) {
  size_t start = end;
  while (start > 0 && in_path(code[start - 1])) --start;
  while (start > 0 && code[start - 1] == '%') --start;
  return start;
}

// The dotted name at the cursor; inside a call's parentheses, the name that is called.
std::string_view name_at(std::string_view code, size_t cursor) {
  size_t end = cursor;
  while (end < code.size() && in_word(code[end])) ++end;
  size_t start = path_start(code, end);
  if (start == end) {
    int depth = 0;
    while (end > 0 && code[end - 1] != '\n') {
      --end;
      if (code[end] == ')') ++depth;
      if (code[end] == '(' && depth-- == 0) break;
    }
    start = path_start(code, end);
  }
  return code.substr(start, end - start);
}

bool is_below(const std::string& name, const std::string& root) {
  return name == root || (name.starts_with(root) && name[root.size()] == '.');
}

}  // namespace

Status Snapshot::set(const std::string& root, std::vector<Name> names) {
  const auto old = roots_.find(root);
  if (old != roots_.end()) {
    bytes_ -= old->second.bytes;
    roots_.erase(old);
  }
  if (names.empty()) return {};
  Root fresh;
  for (Name& name : names) {
    if (!root.empty() && !is_below(name.name, root))
      return error(SK_ERR_INVALID_ARGUMENT, "sk_worker_snapshot: \"{}\" is not below \"{}\"",
                   name.name.substr(0, 80), root.substr(0, 80));
    fresh.bytes += name.name.size() + name.help.size() + 96;  // About what the map adds.
    fresh.helps.insert_or_assign(std::move(name.name), std::move(name.help));
  }
  if (bytes_ + fresh.bytes > kSnapshotBytesMax)
    return error(SK_ERR_OUT_OF_RANGE, "sk_worker_snapshot: \"{}\" takes {} bytes; {} are left",
                 root.substr(0, 80), fresh.bytes, kSnapshotBytesMax - bytes_);
  bytes_ += fresh.bytes;
  roots_[root] = std::move(fresh);
  return {};
}

Reply Snapshot::answer(const Ask& ask) const {
  Reply reply;
  reply.request = ask.request;
  if (ask.kind == SK_REQUEST_COMPLETE) complete(ask, reply);
  if (ask.kind == SK_REQUEST_INSPECT) inspect(ask, reply);
  return reply;
}

void Snapshot::complete(const Ask& ask, Reply& reply) const {
  const std::string_view code = ask.code;
  const size_t start = path_start(code, ask.cursor);
  const std::string path(code.substr(start, ask.cursor - start));
  const size_t dot = path.rfind('.');
  const size_t word = dot == std::string::npos ? 0 : dot + 1;
  reply.start = start + word;
  reply.end = ask.cursor;
  const bool wants_hidden = word < path.size() && path[word] == '_';
  std::set<std::string> matches;
  for (const auto& [root, names] : roots_) {
    for (auto it = names.helps.lower_bound(path); it != names.helps.end(); ++it) {
      if (!it->first.starts_with(path) || matches.size() == kMatchesMax) break;
      const std::string rest = it->first.substr(word);
      if (rest.empty() || rest.find('.') != std::string::npos) continue;
      if (rest[0] != '_' || wants_hidden) matches.insert(rest);
    }
  }
  reply.strings.assign(matches.begin(), matches.end());
}

void Snapshot::inspect(const Ask& ask, Reply& reply) const {
  const std::string name(name_at(ask.code, ask.cursor));
  for (const auto& [root, names] : roots_) {
    const auto found = names.helps.find(name);
    if (name.empty() || found == names.helps.end() || found->second.empty()) continue;
    reply.answer = 1;
    reply.mimes = {{"text/plain", found->second}};
    if (!root.empty()) return;  // A name of the user's hides one of the language's.
  }
}

}  // namespace sk::control
