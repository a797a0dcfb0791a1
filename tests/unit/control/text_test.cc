#include "lib/control/text.h"

#include <gtest/gtest.h>

#include "lib/base/html.h"

namespace sk::control {
namespace {

constexpr const char* kBad = "\xef\xbf\xbd";

TEST(Utf8, KeepsWhatIsValid) {
  for (const std::string text : {"", "plain", "größe", "日本", "🙂 x"})
    EXPECT_EQ(utf8_clean(text), text);
}

TEST(Utf8, ReplacesWhatIsNot) {
  EXPECT_EQ(utf8_clean("a\xff"
                       "b"),
            std::string("a") + kBad + "b");
  EXPECT_EQ(utf8_clean("\xc3"), kBad);                                        // Cut short.
  EXPECT_EQ(utf8_clean("\xc0\x80"), std::string(kBad) + kBad);                // Overlong.
  EXPECT_EQ(utf8_clean("\xed\xa0\x80").find('\xed'), std::string::npos);      // A surrogate.
  EXPECT_EQ(utf8_clean("\xf4\x90\x80\x80").find('\xf4'), std::string::npos);  // Above U+10FFFF.
}

TEST(Utf8, KnowsAnOpenTail) {
  EXPECT_EQ(utf8_open_tail("abc"), 0u);
  EXPECT_EQ(utf8_open_tail("ab\xc3"), 1u);
  EXPECT_EQ(utf8_open_tail("\xe6\x97"), 2u);
  EXPECT_EQ(utf8_open_tail("\xf0\x9f\x99"), 3u);
  EXPECT_EQ(utf8_open_tail("日"), 0u);
  EXPECT_EQ(utf8_open_tail("\xff"), 0u);
}

TEST(Ansi, IsStripped) {
  EXPECT_EQ(strip_ansi("\x1b[31mred\x1b[0m \x1b"
                       "Mx"),
            "red x");
  EXPECT_EQ(escape_length("\x1b[38;5;1mx"), 9u);
  EXPECT_EQ(escape_length("\x1b[38;5"), 0u);
}

TEST(Html, IsEscaped) { EXPECT_EQ(html_escape("<a b=\"c&\">"), "&lt;a b=&quot;c&amp;&quot;&gt;"); }

}  // namespace
}  // namespace sk::control
