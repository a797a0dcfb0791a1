// What the front end does for its own magics.
#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "tools/sk_kernel/content.h"
#include "tools/sk_kernel/front.h"
#include "tools/sk_kernel/magic_table.h"

namespace sk::kernel {
namespace {

struct Words {
  std::string markdown;
  std::string plain;
};

Words welcome(const Language& language, int32_t ranks) {
  const std::string version =
      fmt::format("{}.{}.{}", SK_VERSION_MAJOR, SK_VERSION_MINOR, SK_VERSION_PATCH);
  const std::string on = ranks == 1 ? "one rank" : fmt::format("{} ranks", ranks);
  return {fmt::format("### SuperKernel {}\n\n"
                      "{} {} on {}. Every cell runs on every rank; what they print alike is shown "
                      "once.\n\n"
                      "| type | to |\n|---|---|\n"
                      "| `print(rank, world_size)` | see the ranks |\n"
                      "| `%%on 0` | run a cell on rank 0 alone |\n"
                      "| `%sk` | list all magics |\n",
                      version, language.name, language.version, on),
          fmt::format("SuperKernel {}: {} {} on {}.\n"
                      "Every cell runs on every rank; what they print alike is shown once.\n"
                      "%%on 0 runs a cell on rank 0 alone; %sk lists all magics.",
                      version, language.name, language.version, on)};
}

}  // namespace

bool Front::do_magic(const MagicCall& call) {
  const auto& words = call.arguments;
  if (call.name == "sk status" && !words.empty())
    return fail_cell("UsageError", fmt::format("%sk status takes no \"{}\"", words[0])), false;
  if (call.name == "sk revive" || call.name == "sk stack" || call.name == "sk status")
    return ask_session(call);
  if (call.name == "sk tag") return set_tag(words);
  if (call.name == "sk preload") return set_preload(words);
  if (call.name == "sk seed") return set_seed(words);
  if (call.name == "sk log" || call.name == "sk show") return read_log(call);
  const bool reset = call.name == "reset";  // IPython's -f says: do not ask. Nobody is asked here.
  if (call.name != "sk help" && !words.empty() && !(reset && words[0] == "-f")) {
    fail_cell("UsageError", fmt::format("%{} takes no \"{}\"", call.name, words[0]));
    return false;
  }
  if (call.name == "info") return ask_facts(), false;
  if (call.name == "hostname") return act_on_ranks("hostname", nullptr), false;
  if (reset) return act_on_ranks("reset", nullptr), false;
  if (call.name == "sk help") {
    const HelpText help = magic_help(words.at(0));
    show_text(help.markdown, help.plain);
  } else if (call.name == "welcome") {
    const Words text = welcome(language_, rank_count_);
    show_text(text.markdown, text.plain);
  } else if (call.name == "sk time") {
    show(times_.as_display());
  } else if (call.name == "shutdown") {
    shut_ranks_down();
  } else if (call.name == "reconnect") {
    reconnect();
    return current_.has_value();
  }
  return true;
}

// The front end stays: if it ended as well, a notebook server would start both again.
void Front::shut_ranks_down() {
  if (session_ == nullptr) return say("There are no ranks; %reconnect starts new ones.");
  if (sk_session_close(std::exchange(session_, nullptr)) != SK_OK)
    std::fprintf(stderr, "sk kernel: %s\n", sk_last_error());
  session_fd_ = -1;
  why_no_session_ = "the ranks were shut down; %reconnect starts new ones";
  parents_.clear();  // Their numbers begin anew.
  for (const Json& header : comms_.clear()) publish_status("idle", header);
  prompt_ = 0;
  sk_event nothing = {};
  nothing.status = SK_ERR_PEER_LOST;
  for (const auto& [id, question] : std::exchange(questions_, {})) answer(question, nothing);
  give_up_asked();
  say(fmt::format("{} ended, and what {} held with {}. %reconnect starts new ones.",
                  rank_count_ == 1 ? "The rank has" : "All ranks have",
                  rank_count_ == 1 ? "it" : "they", rank_count_ == 1 ? "it" : "them"));
}

void Front::reconnect() {
  const std::string ranks = rank_count_ == 1 ? "1 rank" : fmt::format("{} ranks", rank_count_);
  if (session_ != nullptr)
    return say(fmt::format("Connected to {}; there is nothing to do.", ranks));
  if (!open_session()) return fail_cell("SessionError", why_no_session_);
  say(fmt::format("Starting {}.", ranks));
}

bool Front::open_session() {
  auto opened = open_(preload_.names());
  if (!opened.ok()) {
    why_no_session_ = opened.status().message() + "; %reconnect tries again";
    return false;
  }
  session_ = opened->session;
  rank_count_ = opened->ranks;
  attached_ = opened->attached;
  note_start();
  // A reply to a client that is not connected again yet is kept, not dropped.
  if (attached_) channels_.shell().set(zmq::sockopt::router_mandatory, true);
  if (sk_session_fd(session_, &session_fd_) == SK_OK && (tag_ == SK_TAG_SET || configure_session()))
    return true;
  why_no_session_ = sk_last_error();
  sk_session_close(std::exchange(session_, nullptr));
  return false;
}

void Front::say(const std::string& line, const char* end) {
  if (current_->silent) return;
  publish("stream", current_->request.header, {{"name", "stdout"}, {"text", line + end}});
}

void Front::act_on_ranks(const char* action, std::function<void()> then) {
  current_->then = std::move(then);
  run_on_ranks(action, SK_REQUEST_ACTION);
}

void Front::ask_facts() {
  current_->collects_facts = true;
  current_->facts.clear();
  act_on_ranks("facts", [this] {
    current_->collects_facts = false;
    const Table table = facts_table(current_->facts, rank_count_);
    show({{"text/plain", table.plain()}, {"text/html", table.html()}});
  });
}

void Front::show_text(const std::string& markdown, const std::string& plain) {
  show({{"text/markdown", markdown}, {"text/plain", plain}});
}

void Front::show(Json data, Json metadata) {
  if (current_->silent) return;
  publish("display_data", current_->request.header,
          {{"data", std::move(data)},
           {"metadata", std::move(metadata)},
           {"transient", Json::object()}});
}

}  // namespace sk::kernel
