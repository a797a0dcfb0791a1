// Modules that ranks share: what a cell that waits for them shows, `%sk preload`, and `%sk seed`.
#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "tools/sk_kernel/content.h"
#include "tools/sk_kernel/front.h"
#include "tools/sk_kernel/table.h"

namespace sk::kernel {
namespace {

constexpr auto kLong = std::chrono::milliseconds(1500);  // A start that takes longer says why.
constexpr const char* kProgressId = "superkernel-start";
constexpr int64_t kSeedMax = 4'294'963'199;  // NumPy takes 32 bits; the highest rank adds 4095.

std::string mebibytes(double bytes) { return fmt::format("{:.0f} MiB", bytes / (1 << 20)); }

Json as_progress(const std::string& line) {
  return {{"data", {{"text/plain", line}}},
          {"metadata", Json::object()},
          {"transient", {{"display_id", kProgressId}}}};
}

// What its reader has to know of one module; "": nothing.
std::string sentence_of(const SharedModule& module) {
  if (!module.why_not.empty()) return fmt::format("preload: {}.\n", module.why_not);
  if (module.printed.empty()) return "";
  return fmt::format("preload: {} printed, when it was imported for all ranks: {}\n", module.name,
                     module.printed);
}

std::string next_start(const Names& names) {
  return fmt::format(
      "Preloaded from the next start on: {} (restart the kernel, or %shutdown and "
      "%reconnect).",
      names.empty() ? "nothing" : joined(names, ", "));
}

Table table_of(const PreloadNote& done, int32_t ranks) {
  Table table;
  table.head = {"module", "seconds", "memory", "shared"};
  double seconds = 0, memory = 0;
  size_t shared = 0;
  for (const SharedModule& module : done.modules) {
    const bool is_shared = module.why_not.empty();
    table.rows.push_back({module.name, fmt::format("{:.2f}", module.seconds),
                          is_shared ? mebibytes(module.memory_bytes) : "",
                          is_shared ? "yes" : "no"});
    seconds += module.seconds;
    memory += is_shared ? module.memory_bytes : 0;
    shared += is_shared ? 1 : 0;
  }
  table.foot =
      fmt::format("{} of {} shared by {} {}: {} and {:.1f} s, once", shared, done.modules.size(),
                  ranks, ranks == 1 ? "rank" : "ranks", mebibytes(memory), seconds);
  return table;
}

}  // namespace

// From the template, also of a start that a lost front end has asked for.
void Front::on_template_note(const Json& json) {
  auto note = read_preload_note(json);
  if (!note) return;
  preload_note_ = std::move(note);
  if (preload_note_->importing.empty()) {
    preload_now_.clear();
    for (const SharedModule& module : preload_note_->modules) preload_now_.push_back(module.name);
  }
  if (catches_up()) return;  // Whoever was there then has been told.
  if (!preload_note_->importing.empty()) return show_progress();
  hide_progress();
  std::string text;
  for (const SharedModule& module : preload_note_->modules)
    if (const std::string line = sentence_of(module); preload_told_.insert(line).second)
      text += line;
  if (text.empty()) return;
  notices_ += text;
  if (!current_) return;
  tell_notices(*current_);
  current_->shown_before = current_->shown.size();  // No clear of the cell's is meant for it.
}

// In the cell that waits, if it waits for long. What it shows is taken away when the cell begins.
void Front::show_progress() {
  const bool waits = current_ && !current_->silent && current_id_ != 0;
  if (!waits || std::chrono::steady_clock::now() - opened_at_ < kLong) return;
  const bool first = !std::exchange(current_->shows_progress, true);
  publish(first ? "display_data" : "update_display_data", current_->request.header,
          as_progress(progress_line()));
}

std::string Front::progress_line() const {
  return fmt::format("The ranks are starting: importing {} ({} of {}), {:.0f} s",
                     preload_note_->importing, preload_note_->number, preload_note_->count,
                     preload_note_->seconds);
}

void Front::hide_progress() {
  if (!current_ || !std::exchange(current_->shows_progress, false)) return;
  std::erase_if(current_->shown, [](const Cell::Output& output) {
    const auto transient = output.content.find("transient");
    return transient != output.content.end() && text_of(*transient, "display_id") == kProgressId;
  });
  current_->shown_before = std::min(current_->shown_before, current_->shown.size());
  publish("clear_output", current_->request.header, {{"wait", false}});
}

// What is shared now, and what will be.
void Front::show_preload() {
  const bool there = session_ != nullptr && preload_note_.has_value();
  std::string next;
  if (preload_.names() != preload_now_ || session_ == nullptr)
    next = next_start(preload_.names()) + "\n";
  if (!there) {
    if (next.empty())
      next = preload_now_.empty() ? "Nothing is preloaded. %sk preload numpy,pandas has these "
                                    "imported once for all ranks, from the next start on.\n"
                                  : fmt::format("{}: {}.\n", joined(preload_now_, ", "),
                                                why_no_preload_.empty() ? "they are being imported"
                                                                        : why_no_preload_);
    return say(next, "");
  }
  const PreloadNote& note = *preload_note_;
  if (note.importing.empty()) {
    const Table table = table_of(note, rank_count_);
    show({{"text/plain", table.plain()}, {"text/html", table.html()}});
    std::string sentences;
    for (const SharedModule& module : note.modules) sentences += sentence_of(module);
    next.insert(0, sentences);
  } else {
    next = progress_line() + "\n" + next;
  }
  if (!next.empty()) say(next, "");
}

// False: the cell has ended.
bool Front::set_preload(const std::vector<std::string>& words) {
  if (language_.name != "python")
    return fail_cell("UsageError", "%sk preload: only ranks of Python share modules"), false;
  if (words.empty()) return show_preload(), true;
  auto names = parse_modules("%sk preload", joined(words, " "));
  if (!names.ok()) return fail_cell("UsageError", names.status().message()), false;
  const Status kept = preload_.choose(std::move(*names));
  if (!kept.ok())
    return fail_cell("SessionError", fmt::format("%sk preload: {}", kept.message())), false;
  if (session_ == nullptr || preload_.names() != preload_now_)
    say(next_start(preload_.names()));
  else
    say(preload_now_.empty()
            ? "Nothing is preloaded, and it stays so."
            : fmt::format("{}: that is preloaded already.", joined(preload_now_, ", ")));
  return true;
}

// The ranks have been asked to start, or were found.
void Front::note_start() {
  opened_at_ = std::chrono::steady_clock::now();
  preload_now_ = preload_.names();
  preload_note_.reset();
  if (attached_) return;
  const std::string& why = preload_now_.empty() ? preload_.flaw() : why_no_preload_;
  if (why.empty()) return;
  const std::string line = fmt::format("preload: nothing is preloaded: {}.\n", why);
  if (preload_told_.insert(line).second) notices_ += line;
}

bool Front::set_seed(const std::vector<std::string>& words) {
  int64_t seed = -1;
  const std::string text = words.size() == 1 ? words[0] : joined(words, " ");
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (failure != std::errc() || end != text.data() + text.size() || seed < 0 || seed > kSeedMax) {
    fail_cell("UsageError",
              fmt::format("%sk seed needs a number from 0 to {}, but has \"{}\"", kSeedMax, text));
    return false;
  }
  act_on_ranks(fmt::format("seed {}", seed).c_str(), nullptr);
  return false;
}

}  // namespace sk::kernel
