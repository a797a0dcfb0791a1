// Which modules the ranks share: from the kernelspec, a variable, or what `%sk preload` was told.
#ifndef SK_TOOLS_SK_KERNEL_PRELOAD_H_
#define SK_TOOLS_SK_KERNEL_PRELOAD_H_

#include <optional>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "tools/sk_kernel/wire.h"

namespace sk::kernel {

using Names = std::vector<std::string>;

// Names with commas or blanks between them, each once; "none", which stands alone, is none. `where`
// is what a sentence says they were given to.
Result<Names> parse_modules(const std::string& where, const std::string& text);

std::string joined(const Names& names, const char* between);

// What the next start of the ranks shares. What was told in a notebook lies in a file beside the
// connection file, where the same kernel finds it after a restart.
class PreloadChoice {
 public:
  PreloadChoice() = default;
  // `installed` is what the kernelspec says, `variable` SK_PRELOAD, which comes before it.
  static PreloadChoice make(const std::string& installed, const char* variable,
                            const std::string& connection_file, const std::string& key);

  const Names& names() const { return names_; }
  // What is wrong with the kernelspec's names or the variable's, which are none then; else "".
  const std::string& flaw() const { return flaw_; }
  // From the next start on, also of this kernel's next front end.
  Status choose(Names names);
  // When the kernel ends for good.
  void forget() const;

 private:
  Names names_;
  std::string flaw_;
  std::string file_;
};

// What became of a module, as the template tells.
struct SharedModule {
  std::string name;
  double seconds = 0;
  double memory_bytes = 0;
  std::string why_not;  // The sentence; "": it is shared.
  std::string printed;
};

// The notes of the template: which module it imports, and at the end what became of all.
struct PreloadNote {
  std::string importing;  // "": it is done.
  int64_t number = 0;
  int64_t count = 0;
  double seconds = 0;
  std::vector<SharedModule> modules;
};
std::optional<PreloadNote> read_preload_note(const Json& note);

}  // namespace sk::kernel

#endif  // SK_TOOLS_SK_KERNEL_PRELOAD_H_
