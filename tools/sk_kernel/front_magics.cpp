// What the front end does for its own magics.
#include <fmt/format.h>

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
  if (call.name == "sk help") {
    const HelpText help = magic_help(call.arguments.at(0));
    show_text(help.markdown, help.plain);
    return true;
  }
  if (call.name == "welcome") {
    const Words words = welcome(language_, rank_count_);
    show_text(words.markdown, words.plain);
    return true;
  }
  fail_cell("UsageError", fmt::format("%{} is not done by this kernel", call.name));
  return false;
}

void Front::show_text(const std::string& markdown, const std::string& plain) {
  show({{"text/markdown", markdown}, {"text/plain", plain}});
}

void Front::show(Json data) {
  if (current_->silent) return;
  publish("display_data", current_->request.header,
          {{"data", std::move(data)}, {"metadata", Json::object()}, {"transient", Json::object()}});
}

}  // namespace sk::kernel
