// A small table for people: as aligned text and as HTML.
#ifndef SK_TOOLS_SK_KERNEL_TABLE_H_
#define SK_TOOLS_SK_KERNEL_TABLE_H_

#include <string>
#include <vector>

namespace sk::kernel {

struct Table {
  std::vector<std::string> head;  // Empty: no heading.
  std::vector<std::vector<std::string>> rows;
  std::string foot;               // A line below it.
  bool numbers_to_right = false;  // Every column but the first is of numbers.

  std::string plain() const;
  std::string html() const;
};

}  // namespace sk::kernel

#endif  // SK_TOOLS_SK_KERNEL_TABLE_H_
