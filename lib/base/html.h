// Text as HTML shows it, in elements and in attributes between double quotes.
#ifndef SK_LIB_BASE_HTML_H_
#define SK_LIB_BASE_HTML_H_

#include <string>
#include <string_view>

namespace sk {

std::string html_escape(std::string_view text);

}  // namespace sk

#endif  // SK_LIB_BASE_HTML_H_
