// Words of several programs' output.
#ifndef SK_TOOLS_TEXT_TEXT_H_
#define SK_TOOLS_TEXT_TEXT_H_

#include <string>
#include <vector>

namespace sk {

// On one line: what ranks and files say is printed, and may be anything. UTF-8.
std::string printable(const std::string& text);

// "0-3,7" of numbers in order.
std::string numbers_text(const std::vector<int>& numbers);

}  // namespace sk

#endif  // SK_TOOLS_TEXT_TEXT_H_
