// One thing that a rank put out in a cell, as a reader would see it.
#ifndef SK_LIB_CONTROL_MERGE_ITEM_H_
#define SK_LIB_CONTROL_MERGE_ITEM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/control/message.h"

namespace sk::control {

// A line of a stream, a display, an update of a display that an earlier cell made, or the place
// where items were left out.
struct Item {
  enum class Kind : uint8_t { kLine, kDisplay, kUpdate, kElided };
  Kind kind = Kind::kLine;
  bool open = false;     // A line that may still grow.
  bool newline = false;  // A line that has ended.
  bool edited = false;   // A line whose text may be older than its editor's.
  bool bar = false;      // A line that was written over: a progress bar, most likely.
  uint32_t stream = 0;
  int64_t came_ns = 0;    // When the engine first saw it.
  uint64_t lines = 0;     // kElided: how many lines are missing here,
  uint64_t displays = 0;  // and how many displays.
  uint64_t digest = 0;    // kElided: of what they were.
  uint64_t cut = 0;       // kLine: bytes behind `text` that were not kept.
  uint64_t bytes = 0;     // What it weighs in its list.
  std::string text;
  std::shared_ptr<const DisplayRecord> display;

  bool is_display() const { return kind == Kind::kDisplay || kind == Kind::kUpdate; }
  // A line that was erased to nothing, or not begun, is nothing.
  bool is_nothing() const { return kind == Kind::kLine && text.empty() && !newline; }

  bool same_content(const Item& other) const {
    if (kind != other.kind || stream != other.stream || newline != other.newline ||
        lines != other.lines || displays != other.displays || digest != other.digest ||
        cut != other.cut)
      return false;
    if (display == nullptr || other.display == nullptr)
      return text == other.text && display == other.display;
    return *display == *other.display;
  }
};

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_MERGE_ITEM_H_
