#include "tools/sk_kernel/magic_table.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>

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
  // All of IPython's.
  std::istringstream line_magics(
      "alias alias_magic autoawait autocall automagic bookmark cat cd code_wrap colors "
      "conda config cp debug dhist dirs doctest_mode ed edit env gui hist history "
      "killbgscripts ldir lf lk ll load load_ext loadpy logoff logon logstart logstate "
      "logstop ls lsmagic lx macro magic mamba matplotlib micromamba mkdir mv notebook "
      "page pastebin pdb pdef pdoc pfile pinfo pinfo2 pip popd pprint precision prun "
      "psearch psource pushd pwd pycat pylab quickref recall rehashx reload_ext rep rerun "
      "reset_selective rm rmdir run save sc set_env sx system tb time timeit unalias "
      "unload_ext uv who who_ls whos xdel xmode ");
  std::istringstream cell_magics(
      "HTML SVG bash capture code_wrap debug file html javascript js latex markdown perl "
      "prun pypy python python2 python3 ruby script sh svg sx system time timeit writefile "
      "in o x py ");
  for (std::string name; line_magics >> name;) EXPECT_EQ(near_magic("%" + name), "") << name;
  for (std::string name; cell_magics >> name;) EXPECT_EQ(near_magic("%%" + name), "") << name;
  EXPECT_EQ(near_magic("%"), "");
  EXPECT_EQ(near_magic("%%"), "");
}

}  // namespace
}  // namespace sk::kernel
