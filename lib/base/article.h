// Names in sentences.
#ifndef SK_LIB_BASE_ARTICLE_H_
#define SK_LIB_BASE_ARTICLE_H_

#include <string>
#include <string_view>

namespace sk {

// "a copy", "an adamw". A name with u in front is spoken as "user" is.
inline std::string with_article(std::string_view name) {
  const bool vowel = !name.empty() && std::string_view("aeio").find(name.front()) != name.npos;
  return std::string(vowel ? "an " : "a ").append(name);
}

}  // namespace sk

#endif  // SK_LIB_BASE_ARTICLE_H_
