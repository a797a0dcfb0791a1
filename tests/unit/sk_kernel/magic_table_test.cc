#include "tools/sk_kernel/magic_table.h"

#include <gtest/gtest.h>

#include <set>

namespace sk::kernel {
namespace {

TEST(MagicTable, EveryMagicHasHelpOfItsOwn) {
  std::set<std::string> seen;
  for (const MagicEntry& entry : magic_table()) {
    EXPECT_TRUE(seen.insert(entry.name).second) << entry.name;
    EXPECT_STRNE(entry.summary, "") << entry.name;
    EXPECT_STRNE(entry.help, "") << entry.name;
    EXPECT_NE(magic_help("").plain.find(entry.name), std::string::npos) << entry.name;
    const HelpText help = magic_help(entry.name);
    EXPECT_NE(help.plain.find(entry.help), std::string::npos) << entry.name;
    EXPECT_NE(help.markdown.find(entry.summary), std::string::npos) << entry.name;
  }
}

TEST(MagicTable, CountsSlipsOfTheKeyboard) {
  EXPECT_EQ(slips("revive", "revive"), 0u);
  EXPECT_EQ(slips("revve", "revive"), 1u);    // Missing,
  EXPECT_EQ(slips("reviive", "revive"), 1u);  // too many,
  EXPECT_EQ(slips("ravive", "revive"), 1u);   // wrong,
  EXPECT_EQ(slips("rveive", "revive"), 1u);   // swapped.
  EXPECT_EQ(slips("", "abc"), 3u);
  EXPECT_EQ(slips("kitten", "sitting"), 3u);
}

TEST(MagicTable, NearNames) {
  EXPECT_EQ(near_magic("%%onn"), "%%on");
  EXPECT_EQ(near_magic("%%no"), "%%on");
  EXPECT_EQ(near_magic("%%ON"), "%%on");
  EXPECT_EQ(near_magic("%%ranks"), "%%rank");
  EXPECT_EQ(near_magic("%%rnak"), "%%rank");
  EXPECT_EQ(near_magic("%%ppx"), "%%px");
  EXPECT_EQ(near_magic("%wellcom"), "%welcome");
}

TEST(MagicTable, TheLanguagesMagicsAreNotNear) {
  for (const char* name :
       {"%%time",    "%%timeit",    "%%bash", "%%writefile", "%%html", "%%script", "%%prun",
        "%%in",      "%%js",        "%%o",    "%%x",         "%%ruby", "%%svg",    "%%perl",
        "%%capture", "%%file",      "%time",  "%run",        "%who",   "%cd",      "%ls",
        "%pip",      "%matplotlib", "%load",  "%env",        "%debug", "%history", "%"})
    EXPECT_EQ(near_magic(name), "") << name;
}

}  // namespace
}  // namespace sk::kernel
