// `%sk tag`, `%sk log` and `%sk show`: how output is marked, and what was put out before.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <utility>

#include "sk/output.h"
#include "tools/sk_kernel/content.h"
#include "tools/sk_kernel/front.h"
#include "tools/sk_kernel/magic_log.h"

namespace sk::kernel {
namespace {

constexpr std::array<std::pair<const char*, int32_t>, 4> kTags = {
    {{"none", SK_TAG_NONE}, {"set", SK_TAG_SET}, {"spec", SK_TAG_SPEC}, {"host", SK_TAG_HOST}}};
constexpr uint64_t kPieceBytes = 8 << 20;  // Of a log that goes to a file, at once.

}  // namespace

// What is read of a log, piece by piece.
struct Front::LogRead {
  LogArguments arguments;
  sk_log_query query = {};
  std::ofstream file;
};

// False: the cell has ended.
bool Front::set_tag(const std::vector<std::string>& words) {
  const auto chosen = std::find_if(kTags.begin(), kTags.end(), [&](const auto& tag) {
    return words.size() == 1 && words[0] == tag.first;
  });
  if (words.empty()) {
    const auto now = std::find_if(kTags.begin(), kTags.end(),
                                  [&](const auto& tag) { return tag.second == tag_; });
    return say(fmt::format("Lines are tagged by: {}", now->first)), true;
  }
  if (chosen == kTags.end())
    return fail_cell("UsageError", "%sk tag takes one of none, set, spec and host"), false;
  const int32_t before = std::exchange(tag_, chosen->second);
  if (session_ == nullptr || configure_session()) return true;
  tag_ = before;
  return fail_cell("SessionError", sk_last_error()), false;
}

bool Front::configure_session() {
  sk_session_settings settings = {};
  settings.struct_size = sizeof settings;
  settings.tag = tag_;
  return sk_session_configure(session_, &settings) == SK_OK;
}

bool Front::read_log(const MagicCall& call) {
  const bool text = call.name == "sk log";
  auto arguments = text ? parse_log(call.arguments) : parse_show(call.arguments);
  if (!arguments.ok()) return fail_cell("UsageError", arguments.status().message()), false;
  if (session_ == nullptr) return fail_cell("SessionError", why_no_session_), false;
  auto read = std::make_shared<LogRead>();
  read->arguments = std::move(*arguments);
  if (read->arguments.cell == 0) read->arguments.cell = times_.cell();
  if (read->arguments.cell == 0) return fail_cell("UsageError", "no cell has run yet"), false;
  read->query.struct_size = sizeof read->query;
  read->query.what = text ? SK_LOG_TEXT : SK_LOG_DISPLAY;
  read->query.execution_count = read->arguments.cell;
  if (!read->arguments.ranks.empty()) read->query.ranks = read->arguments.ranks.c_str();
  const std::string& file = read->arguments.file;
  if (!file.empty()) {
    read->query.limit = kPieceBytes;
    read->file.open(file, std::ios::binary | std::ios::trunc);
    if (!read->file) return fail_cell("UsageError", fmt::format("cannot write {}", file)), false;
  }
  ask_log(read);
  return false;
}

void Front::ask_log(const std::shared_ptr<LogRead>& read) {
  const char* const name = read->query.what == SK_LOG_TEXT ? "sk log" : "sk show";
  uint64_t request = 0;
  if (sk_session_log(session_, &read->query, &request) != SK_OK)
    return fail_cell("UsageError", said_of(name, sk_last_error()));
  asked_[request] = [this, read, name](const sk_event& event) {
    if (!current_) return;
    if (event.status != SK_OK)
      fail_cell("UsageError", said_of(name, event.text));
    else if (read->query.what == SK_LOG_TEXT)
      take_log(read, event);
    else
      take_display(read, event);
    start_next();
  };
}

void Front::take_log(const std::shared_ptr<LogRead>& read, const sk_event& event) {
  const std::string& file = read->arguments.file;
  if (file.empty()) {
    if (event.text_bytes > 0) say(std::string(event.text, event.text_bytes), "");
    if (event.end < event.total)
      say(fmt::format("… {} more bytes: `%sk log {} {}> FILE` writes all of them",
                      event.total - event.end, read->arguments.cell,
                      read->arguments.ranks.empty() ? "" : read->arguments.ranks + " "));
    return advance_cell();
  }
  read->file.write(event.text, static_cast<std::streamsize>(event.text_bytes));
  if (!read->file) return fail_cell("SessionError", fmt::format("cannot write {}", file));
  if (event.end < event.total && event.end > read->query.offset) {
    read->query.offset = event.end;
    return ask_log(read);
  }
  read->file.close();  // The code below the magic may read it at once.
  if (!read->file) return fail_cell("SessionError", fmt::format("cannot write {}", file));
  say(fmt::format("{} bytes are in {}", event.total, file));
  advance_cell();
}

// One display after the other, until there is no more.
void Front::take_display(const std::shared_ptr<LogRead>& read, const sk_event& event) {
  if (event.mime_count > 0) {
    const Json metadata = Json::parse(event.metadata, nullptr, /*allow_exceptions=*/false);
    show(bundle(event.mimes, event.mime_count), metadata.is_object() ? metadata : Json::object());
  }
  if (++read->query.offset < event.total) return ask_log(read);
  advance_cell();
}

}  // namespace sk::kernel
