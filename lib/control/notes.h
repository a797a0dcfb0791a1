// What a front end leaves for the one that comes after it: texts under names, which nobody here
// reads. Pure, and bounded.
#ifndef SK_LIB_CONTROL_NOTES_H_
#define SK_LIB_CONTROL_NOTES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/control/message.h"

namespace sk::control {

class Notes {
 public:
  static constexpr uint64_t kBytesMax = 64ull << 20;  // Of all texts,
  static constexpr size_t kNamesMax = 100'000;        // and so many of them.

  // Where there is no room the name is kept without its text, so that its reader knows of it.
  void take(Note note);

  // As events, in order of the names.
  std::vector<Event> replay() const;

 private:
  std::map<std::string, std::string> texts_;
  uint64_t bytes_ = 0;
};

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_NOTES_H_
