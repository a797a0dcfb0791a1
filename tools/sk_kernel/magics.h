// The front end's magics in the text of a cell: found, taken out, told apart from the language's.
//
// Pure: text in, a plan out. Ours stand before the first line of code, each on a line of its own;
// blank lines and comments between them are fine. `%%on`, `%%rank` and `%%px` choose the ranks,
// the line magics are done by the front end in order, and what is left is run by the ranks. Every
// other magic is the language's, also behind ours.
#ifndef SK_TOOLS_SK_KERNEL_MAGICS_H_
#define SK_TOOLS_SK_KERNEL_MAGICS_H_

#include <string>
#include <string_view>
#include <vector>

namespace sk::kernel {

struct MagicCall {
  std::string name;                    // "info", or a verb of %sk as "sk revive".
  std::vector<std::string> arguments;  // The words behind it.
  bool operator==(const MagicCall&) const = default;
};

struct CellPlan {
  std::string ranks;             // As sk_exec() takes them; "" when the cell does not say.
  std::string chosen_by;         // What was typed to choose them: "%%rank 9".
  std::vector<MagicCall> calls;  // Before the code, in this order.
  std::string code;              // For the ranks; "" when there is none.
  std::string problem;           // Not "": why nothing of this cell can be done.
  // A magic at the head of the code that is a slip away from one of ours, and what is wrong with it
  // unless the language has it: users register their own.
  std::string unsure;
  std::string slip;
};

CellPlan plan_cell(std::string_view text);

// The same text with each of our lines made a comment of the same length, so that positions in it
// stay: what the language is asked about while the cell is typed.
std::string without_magics(std::string_view text);

// The magic of ours in whose line the cursor is, as magic_help() knows it: "%%on", "%sk log"; "" if
// there is none.
std::string magic_at(std::string_view text, size_t cursor);

// Names that continue the word before `cursor`, if that is the name of a magic of ours or an
// argument of one; they replace the bytes [start, end).
struct MagicNames {
  bool ours = false;  // Nothing but our names can stand here.
  size_t start = 0;
  size_t end = 0;
  std::vector<std::string> names;
};
MagicNames complete_magic(std::string_view text, size_t cursor);

}  // namespace sk::kernel

#endif  // SK_TOOLS_SK_KERNEL_MAGICS_H_
