#include "tools/sk_kernel/magics.h"

#include <gtest/gtest.h>

#include <random>

#include "tools/sk_kernel/magic_table.h"

namespace sk::kernel {
namespace {

TEST(Magics, TextWithoutOursIsUntouched) {
  for (const char* text :
       {"", "\n\n", "x = 1", "# %%on 0\nx", "print('%%on 0')", "x = 1\n%%on 0\n", "%%time\nx",
        "%%writefile a.py\n%%on 0\n%welcome\n", "%timeit x", "!echo %sk", "%%", "% sk", "%%%on 0",
        "%welcome_all", "%welcome.x", "%%on.x\n", "  # a\n\n  x\n%sk"}) {
    const CellPlan plan = plan_cell(text);
    EXPECT_EQ(plan.code, text);
    EXPECT_EQ(plan.ranks, "") << text;
    EXPECT_TRUE(plan.calls.empty()) << text;
    EXPECT_EQ(plan.problem, "") << text;
  }
}

TEST(Magics, ChooseRanks) {
  EXPECT_EQ(plan_cell("%%on 0,2-5\nx").ranks, "0,2-5");
  EXPECT_EQ(plan_cell("%%on  0 - 3 , 5 \r\nx").ranks, "0 - 3 , 5");
  EXPECT_EQ(plan_cell("%%on alive # who is left\nx").ranks, "alive");
  EXPECT_EQ(plan_cell("%%on host:gpu1\nx").ranks, "host:gpu1");
  EXPECT_EQ(plan_cell("\n# first\n\n  %%rank 7\nx").ranks, "7");
  EXPECT_EQ(plan_cell("%%px\nx").ranks, "all");
  EXPECT_EQ(plan_cell("%%px --targets 0-2\nx").ranks, "0-2");
  EXPECT_EQ(plan_cell("%%px --targets=1,3\nx").ranks, "1,3");
  EXPECT_EQ(plan_cell("%%px -t 1, 3\nx").ranks, "1, 3");
  EXPECT_EQ(plan_cell("%%px -t 1 3\nx").ranks, "1 3");  // Not 13.
  EXPECT_EQ(plan_cell("# a\n%%rank 9 # b\nx").chosen_by, "%%rank 9");
}

TEST(Magics, PackagesAreInstalledOnce) {
  for (const char* text : {"%pip install tqdm", "# first\n\n%conda install -y numpy\n%pip list\n",
                           "%info\n%pip install tqdm", " %pip install tqdm  # so"})
    EXPECT_EQ(plan_cell(text).ranks, "0") << text;
  for (const char* text : {"%pip install tqdm\nimport tqdm", "%pip?", "%pipe", "!pip install tqdm",
                           "x = 1", "", "# %pip install tqdm", "%%on\n%pip install tqdm"})
    EXPECT_EQ(plan_cell(text).ranks, "") << text;
  EXPECT_EQ(plan_cell("%%px\n%pip install tqdm").ranks, "all");
  EXPECT_EQ(plan_cell("%pip install tqdm").code, "%pip install tqdm");
}

TEST(Magics, LineNumbersStay) {
  EXPECT_EQ(plan_cell("# a\n%%on 0\n\n%welcome\nx\ny").code, "# a\n#%%on 0\n\n#%welcome\nx\ny");
  EXPECT_EQ(plan_cell("%%on 0\nx\n%welcome\n").code, "#%%on 0\nx\n%welcome\n");
}

TEST(Magics, CellMagicsOfTheLanguageComeFirst) {
  const CellPlan plan = plan_cell("%%on 1\n# why\n\n%%time\nx\n%%on 2");
  EXPECT_EQ(plan.ranks, "1");
  EXPECT_EQ(plan.code, "%%time\nx\n%%on 2");
  EXPECT_EQ(plan.problem, "");
}

TEST(Magics, LineMagicsInOrder) {
  const CellPlan plan = plan_cell("%welcome\n%sk\n%%on 1\n%welcome  a b\n\n%time x\n%welcome");
  const std::vector<MagicCall> calls = {
      {"welcome", {}}, {"sk help", {""}}, {"welcome", {"a", "b"}}};
  EXPECT_EQ(plan.calls, calls);
  EXPECT_EQ(plan.code, "#%welcome\n#%sk\n#%%on 1\n#%welcome  a b\n\n%time x\n%welcome");
}

TEST(Magics, AloneTheyLeaveNothingToRun) {
  for (const char* text : {"%welcome", "%%on 0", "%welcome\n\n# and\n  \n"}) {
    EXPECT_EQ(plan_cell(text).code, "") << text;
    EXPECT_EQ(plan_cell(text).problem, "") << text;
  }
}

TEST(Magics, AskForHelp) {
  const auto help_of = [](std::string_view text) { return plan_cell(text).calls.at(0); };
  EXPECT_EQ(help_of("%sk help"), (MagicCall{"sk help", {""}}));
  EXPECT_EQ(help_of("%sk?"), (MagicCall{"sk help", {""}}));
  EXPECT_EQ(help_of("%%on?"), (MagicCall{"sk help", {"%%on"}}));
  EXPECT_EQ(help_of("%welcome?"), (MagicCall{"sk help", {"%welcome"}}));
  EXPECT_EQ(help_of("%sk help on"), (MagicCall{"sk help", {"%%on"}}));
  EXPECT_EQ(help_of("%sk help %%px"), (MagicCall{"sk help", {"%%px"}}));
}

TEST(Magics, ASlipIsOneUnlessTheLanguageHasIt) {
  for (const auto& [text, unsure, slip] :
       {std::tuple("%%onn 0-2\nx", "%%onn", "there is no magic %%onn; did you mean %%on 0-2?"),
        std::tuple("%wellcome", "%wellcome", "there is no magic %wellcome; did you mean %welcome?"),
        std::tuple("%%on 1\n%inf\n%info", "%inf", "there is no magic %inf; did you mean %info?")}) {
    const CellPlan plan = plan_cell(text);
    EXPECT_EQ(plan.unsure, unsure);
    EXPECT_EQ(plan.slip, slip);
    EXPECT_EQ(plan.problem, "");
    EXPECT_NE(plan.code.find(unsure), std::string::npos);  // It runs if it is the language's.
    EXPECT_TRUE(plan.calls.empty());
  }
}

TEST(Magics, ProblemsAreSentences) {
  const auto problem_of = [](const char* text) { return plan_cell(text).problem; };
  EXPECT_EQ(problem_of("%sk frobnicate"), "%sk has no verb frobnicate; %sk alone lists them all");
  EXPECT_EQ(problem_of("%%on 0\n%%rank 1\nx"), "%%rank behind %%on: a cell has one set of ranks");
  EXPECT_NE(problem_of("%%on\nx").find("needs a set of ranks"), std::string::npos);
  EXPECT_NE(problem_of("%%rank\nx").find("needs one rank"), std::string::npos);
  EXPECT_NE(problem_of("%%rank 0-2\nx").find("\"0-2\""), std::string::npos);
  EXPECT_NE(problem_of("%%px --noblock\nx").find("no --noblock"), std::string::npos);
  EXPECT_NE(problem_of("%%px --targets\nx").find("needs a set"), std::string::npos);
  EXPECT_NE(problem_of("%sk help nothing").find("no magic nothing"), std::string::npos);
}

TEST(Magics, QuestionsSeeACommentInTheirPlace) {
  EXPECT_EQ(without_magics("%%on 0\n%%time\nx"), "#%on 0\n%%time\nx");
  EXPECT_EQ(without_magics(" %sk tag\n"), " #sk tag\n");
  EXPECT_EQ(without_magics("%%onn\nx"), "%%onn\nx");  // It may be the language's.
  EXPECT_EQ(without_magics("x"), "x");
}

TEST(Magics, Completion) {
  const auto names = [](std::string_view text) { return complete_magic(text, text.size()).names; };
  EXPECT_EQ(names("%%o"), (std::vector<std::string>{"%%on"}));
  EXPECT_EQ(names("%%on 1\n%wel"), (std::vector<std::string>{"%welcome"}));
  EXPECT_EQ(names("%%"), (std::vector<std::string>{"%%on", "%%rank", "%%px"}));
  EXPECT_TRUE(names("x\n%wel").empty());
  EXPECT_TRUE(names("x = %wel").empty());
  EXPECT_TRUE(names("").empty());
  EXPECT_EQ(complete_magic("# a\n  %wel", 9).start, 6u);
  EXPECT_TRUE(complete_magic("%sk t", 5).ours);
  EXPECT_FALSE(complete_magic("%we", 3).ours);
}

TEST(Magics, WhoseLineItIs) {
  EXPECT_EQ(magic_at("%sk", 3), "%sk");
  EXPECT_EQ(magic_at("%sk log 1", 2), "%sk log");
  EXPECT_EQ(magic_at("%sk frob", 5), "%sk");
  EXPECT_EQ(magic_at("%%on 1\n  %info\nx", 12), "%info");
  for (const char* text : {"x", "%time x", "%", "%%", "", "x\n%info", "%%%on 1", "%info.x"})
    EXPECT_EQ(magic_at(text, 99), "") << text;
}

// Whatever the bytes: no crash, the same length for questions, and what is not ours is kept.
TEST(Magics, AnyBytes) {
  std::mt19937 random(20);
  const std::string alphabet = "%%%onrankpxsk welcm?=-,.#\n\n\r\t 01\xc3\xff";
  for (int round = 0; round < 20000; ++round) {
    std::string text(random() % 40, ' ');
    for (char& c : text) c = alphabet[random() % alphabet.size()];
    const CellPlan plan = plan_cell(text);
    const std::string blank = without_magics(text);
    ASSERT_EQ(blank.size(), text.size());
    for (size_t i = 0; i < text.size(); ++i)
      ASSERT_TRUE(blank[i] == text[i] || (blank[i] == '#' && text[i] == '%')) << text;
    if (plan.problem.empty() && plan.calls.empty() && plan.ranks.empty()) {
      ASSERT_EQ(plan.code, text);
    }
    complete_magic(text, random() % (text.size() + 1));
    magic_at(text, random() % (text.size() + 1));
  }
}

}  // namespace
}  // namespace sk::kernel
