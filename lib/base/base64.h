// Bytes as text that JSON and HTML can hold.
#ifndef SK_LIB_BASE_BASE64_H_
#define SK_LIB_BASE_BASE64_H_

#include <string>
#include <string_view>

namespace sk {

std::string base64(std::string_view bytes);

}  // namespace sk

#endif  // SK_LIB_BASE_BASE64_H_
