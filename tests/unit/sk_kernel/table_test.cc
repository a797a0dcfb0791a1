#include "tools/sk_kernel/table.h"

#include <gtest/gtest.h>

#include "tools/sk_kernel/magic_facts.h"
#include "tools/sk_kernel/magic_log.h"
#include "tools/sk_kernel/magic_status.h"
#include "tools/sk_kernel/magic_time.h"

namespace sk::kernel {
namespace {

TEST(Table, LinesUpWhatPeopleSee) {
  Table table{{"a", "bb"}, {{"é", "1"}, {"long", ""}}, "", false};
  EXPECT_EQ(table.plain(), "a     bb\né     1\nlong");
  table.numbers_to_right = true;
  table.foot = "the end";
  EXPECT_EQ(table.plain(), "a     bb\né      1\nlong\nthe end");
}

TEST(Table, NothingInItIsMarkup) {
  const Table table{{}, {{"<b>", "a & \"b\""}}, "<i>", false};
  EXPECT_EQ(table.html(),
            "<table><tr><th>&lt;b&gt;</th><td>a &amp; &quot;b&quot;</td></tr></table>"
            "<p>&lt;i&gt;</p>");
}

sk_event display(const sk_mime& mime, const char* ranks) {
  sk_event event = {};
  event.display = SK_DISPLAY_DATA;
  event.ranks = ranks;
  event.mimes = &mime;
  event.mime_count = 1;
  return event;
}

TEST(Facts, OneColumnWhereAllAreAlike) {
  const std::string text =
      R"({"host": "n1", "cpu": "Chip", "cores": 8, "memory_bytes": 2147483648, "driver": "550",
          "gpus": [{"name": "H", "memory_bytes": 85899345920}, {"name": "H",
          "memory_bytes": 85899345920}, {"name": "L"}], "cuda": "12.4",
          "versions": {"zlib": "1", "libsk": "0.1.0"}})";
  const sk_mime mime = {"application/vnd.superkernel.facts+json", text.data(), text.size()};
  std::vector<RankFacts> facts;
  collect(facts, display(mime, "0-3"));
  EXPECT_EQ(facts_table(facts, 4).plain(),
            "ranks      0-3 of 4\n"
            "host       n1\n"
            "processor  8 × Chip\n"
            "memory     2.0 GiB\n"
            "GPUs       2 × H (80.0 GiB), 1 × L\n"
            "CUDA       12.4 (driver 550)\n"
            "libsk      0.1.0\n"
            "zlib       1");
}

TEST(Facts, OneColumnForEachGroup) {
  const std::vector<RankFacts> facts = {{"0", Json{{"host", "a"}}}, {"1,2", Json{{"host", "b"}}}};
  EXPECT_EQ(facts_table(facts, 3).plain(), "ranks  0     1,2\nhost   a     b\nGPUs   none  none");
}

TEST(Facts, OfAnyType) {
  const Json odd = {{"host", 1},        {"cpu", Json::array()}, {"cores", "two"},
                    {"gpus", {1, "x"}}, {"versions", 3},        {"memory_bytes", -5}};
  EXPECT_EQ(facts_table({{"0", odd}}, 1).head.size(), 2u);
  std::vector<RankFacts> facts;
  const sk_mime broken = {"application/vnd.superkernel.facts+json", "{", 1};
  collect(facts, display(broken, "0"));
  const sk_mime other = {"text/plain", "x", 1};
  collect(facts, display(other, "0"));
  EXPECT_TRUE(facts.empty());
}

TEST(Facts, AClearTakesThemBack) {
  std::vector<RankFacts> facts = {{"0", Json::object()}};
  sk_event clear = {};
  clear.display = SK_DISPLAY_CLEAR_WAIT;
  collect(facts, clear);
  EXPECT_TRUE(facts.empty());
}

TEST(Times, SlowestAndSkew) {
  const sk_rank_time times[] = {{0, 0, 1'500'000, 900}, {2, 0, 4'000'000'000, 2'000'000}};
  const CellTimes cell(7, times, 2);
  EXPECT_EQ(cell.as_display()["text/plain"],
            "rank    wall     cpu\n"
            "0     1.5 ms    1 µs\n"
            "2     4.00 s  2.0 ms\n"
            "cell 7: slowest rank 2, skew 4.00 s");
  const Json json = cell.as_json();
  EXPECT_EQ(json["ranks"], (Json{0, 2}));
  EXPECT_EQ(json["wall_s"], (Json{0.0015, 4.0}));
  EXPECT_EQ(json["slowest"], 2);
  EXPECT_DOUBLE_EQ(json["skew_s"], 3.9985);
}

TEST(Times, TheSlowestOfMany) {
  std::vector<sk_rank_time> times;
  for (int32_t rank = 0; rank < 100; ++rank) times.push_back({rank, 0, rank * 1'000'000, 0});
  const std::string text = CellTimes(1, times.data(), times.size()).as_display()["text/plain"];
  EXPECT_NE(text.find("\n99    99.0 ms"), std::string::npos) << text;
  EXPECT_EQ(text.find("\n67 "), std::string::npos) << text;
  EXPECT_NE(text.find("the 32 slowest of 100 ranks"), std::string::npos) << text;
}

TEST(Times, OfNothing) {
  EXPECT_EQ(CellTimes().as_display()["text/plain"], "No cell has run yet.");
  EXPECT_EQ(CellTimes().as_json(), Json::object());
  EXPECT_NE(CellTimes(3, nullptr, 0).as_display()["text/plain"], "No cell has run yet.");
}

TEST(Status, IsOfEachRank) {
  const Table table = status_table(
      R"({"ranks": [{"rank": 0, "state": "idle", "host": "a", "rss_bytes": 1048576},
                    {"rank": 1, "state": "dead", "host": "a", "cause": "exit", "incarnation": 2},
                    {"rank": 2, "state": "idle", "host": "a", "rss_bytes": 2097152}]})");
  EXPECT_EQ(table.plain(),
            "ranks  state  host  memory  revived  why\n"
            "0      idle   a     1 MiB\n"
            "1      dead   a     0 MiB   2 times  exit\n"
            "2      idle   a     2 MiB");
}

TEST(Status, SaysWhatARankDoesAndForWhomItWaits) {
  const Table table = status_table(
      R"json({"ranks": [{"rank": 0, "state": "busy", "doing": "cell", "execution_count": 7,
                     "elapsed_seconds": 3725.4, "waits_in": "barrier()", "waits_for": "1,2"},
                    {"rank": 1, "state": "busy", "doing": "comm", "elapsed_seconds": 61},
                    {"rank": 2, "state": "busy", "doing": "cell", "execution_count": 0,
                     "elapsed_seconds": 0.25, "waits_in": "barrier()", "waits_for": "1"}]})json");
  EXPECT_EQ(table.plain(),
            "ranks  state  cell    for         waits                       memory\n"
            "0      busy   [7]     1 h 02 min  for ranks 1,2 in barrier()  0 MiB\n"
            "1      busy   widget  1 min 01 s                              0 MiB\n"
            "2      busy   hidden  0.2 s       for rank 1 in barrier()     0 MiB");
}

TEST(Status, ManyRanksThatAreAlikeShareARow) {
  Json ranks = Json::array();
  for (int rank = 0; rank < 20; ++rank)
    ranks.push_back({{"rank", rank},
                     {"state", rank == 3 ? "idle" : "busy"},
                     {"rss_bytes", (10 + rank) * 1048576},
                     {"doing", rank == 3 ? "" : "cell"},
                     {"execution_count", 2},
                     {"elapsed_seconds", 1.0 + rank}});
  EXPECT_EQ(status_table(Json{{"ranks", ranks}}.dump()).plain(),
            "ranks     state  cell  for             memory\n"
            "0-2,4-19  busy   [2]   1.0 s … 20.0 s  10…29 MiB\n"
            "3         idle                         13 MiB");
}

TEST(Status, OfAnyText) {
  for (const char* text :
       {"", "{", "[]", "3", R"({"ranks": 1})", R"({"ranks": [1, {"rank": "x"}]})"})
    EXPECT_LE(status_table(text).rows.size(), 1u) << text;
}

TEST(Log, Arguments) {
  const auto log = [](const std::vector<std::string>& words) { return parse_log(words).value(); };
  EXPECT_EQ(log({}).cell, 0);
  EXPECT_EQ(log({"3"}).cell, 3);
  EXPECT_EQ(log({"3", "0-2,", "5"}).ranks, "0-2, 5");
  EXPECT_EQ(log({"3", ">", "a b", "c"}).file, "a b c");
  EXPECT_EQ(log({">out.txt"}).file, "out.txt");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"x"}, {"0"}, {"-1"}, {"3x"}, {"99999999999999999999"}, {"3", ">"}})
    EXPECT_EQ(parse_log(words).status().code(), SK_ERR_INVALID_ARGUMENT) << words[0];
  EXPECT_EQ(parse_show({"3"}).value().ranks, "3");
  EXPECT_EQ(parse_show({"3", "12"}).value().cell, 12);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{}, {"a"}, {"0-3"}, {"1", "x"}, {"1", "2", "3"}})
    EXPECT_EQ(parse_show(words).status().code(), SK_ERR_INVALID_ARGUMENT);
}

TEST(Status, SaysWhatAPersonWould) {
  const std::string text =
      R"({"ranks": [{"rank": 0, "state": "idle", "incarnation": 1},
                    {"rank": 1, "state": "dead", "incarnation": 2,
                     "cause": "exited with code 3; its last words:\nand\nmore"}]})";
  const std::string plain = status_table(text).plain();
  EXPECT_NE(plain.find(" once"), std::string::npos) << plain;
  EXPECT_NE(plain.find("2 times  exited with code 3"), std::string::npos) << plain;
  EXPECT_EQ(plain.find("words"), std::string::npos) << plain;
}

}  // namespace
}  // namespace sk::kernel
