// What magics there are: names, usage and help, and the name that a mistyped one may have meant.
#ifndef SK_TOOLS_SK_KERNEL_MAGIC_TABLE_H_
#define SK_TOOLS_SK_KERNEL_MAGIC_TABLE_H_

#include <string>
#include <string_view>
#include <vector>

namespace sk::kernel {

struct MagicEntry {
  const char* name;       // "%%on", "%info", "%sk time": as it is typed.
  const char* arguments;  // Of its usage line; "" when it takes none.
  const char* summary;    // Half a line.
  const char* help;       // A few sentences.
};
const std::vector<MagicEntry>& magic_table();

// By the name as it is typed; null when there is none.
const MagicEntry* find_magic(std::string_view typed);

// The known name that differs from `typed` by a slip of the keyboard (a letter too many, missing,
// wrong, or two swapped; for names of six letters and more, two slips); "" when there is none.
// Names of two letters are near only what has the same letters and one more or two swapped: too
// much of the language is one wrong letter away from them.
std::string near_magic(std::string_view typed);

// Slips between two words (optimal string alignment).
size_t slips(std::string_view a, std::string_view b);

// Help for one magic or, with "", for all, as Markdown and as plain text.
struct HelpText {
  std::string markdown;
  std::string plain;
};
HelpText magic_help(std::string_view typed);

}  // namespace sk::kernel

#endif  // SK_TOOLS_SK_KERNEL_MAGIC_TABLE_H_
