// What stuck ranks are doing, as text for people: stacks merged over ranks, and in a few words.
#ifndef SK_LIB_CONTROL_STACK_TEXT_H_
#define SK_LIB_CONTROL_STACK_TEXT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/control/rank_set.h"

namespace sk::control {

// As a rank's I/O thread took it. One frame a line, innermost first; "" where there is none.
struct RankStack {
  bool idle = false;     // Between cells.
  std::string native;    // "clock_nanosleep (libc.so.6)"
  std::string language;  // As the language writes it, here Python's faulthandler.
  bool operator==(const RankStack&) const = default;
};

// Whose code a native frame is.
enum class FrameOf : uint8_t {
  kOther,        // The user's, a driver's.
  kInterpreter,  // Tells nothing that the language's own stack does not tell better.
  kBinding,      // Between the language and libsk.
  kLibrary,      // libsk.
  kCLibrary,
};

struct NativeFrame {
  FrameOf of = FrameOf::kOther;
  bool named = true;
};

// The places of the frames, innermost first, that tell a reader where a rank is. Of libsk it is the
// function that was called: the steps in it differ from one moment to the next. `is_whole`: the
// outermost frames are how the process was started.
std::vector<size_t> telling_frames(const std::vector<NativeFrame>& frames, bool is_whole);

// The language's frames without what is the same for nobody (thread numbers) or for everybody (the
// frames of the rank program below the cell), and cells by their number.
std::string clean_language_stack(const std::string& text);

// "`clock_nanosleep` (libc.so.6), Python: cell 4, line 2, in f"; "" when nothing is known.
std::string innermost(const RankStack& stack);

// All stacks, ranks with the same one together; `silent` are those that gave none.
std::string merge_stacks(const std::map<uint32_t, RankStack>& stacks, const RankSet& silent);

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_STACK_TEXT_H_
