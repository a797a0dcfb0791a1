// How output is tagged, bounded and kept, as a C program sees it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "sk/exec.h"
#include "sk/output.h"
#include "tests/multi/exec_session.h"

namespace {

using sk::testing_support::Session;

sk_session_settings settings(int32_t tag, uint64_t lines = 0, uint64_t bytes = 0,
                             uint64_t kept = 0) {
  return {sizeof(sk_session_settings), tag, lines, bytes, kept};
}

sk_log_query query_of(uint64_t cell, const char* ranks) {
  sk_log_query query = {};
  query.struct_size = sizeof query;
  query.cell = cell;
  query.ranks = ranks;
  return query;
}

std::string log_of(Session& session, sk_log_query query) {
  std::string text;
  uint64_t total = 1;
  while (text.size() < total) {
    query.offset = text.size();
    uint64_t request = 0;
    EXPECT_EQ(sk_session_log(session.get(), &query, &request), SK_OK) << sk_last_error();
    const size_t had = text.size();
    session.answer(request, [&](const sk_event& event) {
      EXPECT_EQ(event.status, SK_OK) << event.text;
      text.append(event.text, event.text_bytes);
      total = event.total;
    });
    if (text.size() == had) break;
  }
  return text;
}

TEST(ExecOutput, TagModesHoldFromTheNextCellOn) {
  Session session(12);
  const auto run_with = [&](int32_t tag) {
    const sk_session_settings wanted = settings(tag);
    EXPECT_EQ(sk_session_configure(session.get(), &wanted), SK_OK) << sk_last_error();
    return session.run("print same\non 0,3 print I am {rank}");
  };
  // A single rank's tag is as wide as the widest of all.
  const std::string by_set = "     same\n[ 0] I am 0\n[ 3] I am 3\n";
  EXPECT_EQ(run_with(0), by_set);
  EXPECT_EQ(run_with(SK_TAG_NONE), "same\nI am 0\nI am 3\n");
  std::string spec;
  for (int rank = 0; rank < 12; ++rank) {
    const std::string tag =
        std::string("[rank ") + (rank < 10 ? "   " : "  ") + std::to_string(rank) + "] ";
    spec += tag + "same\n";
    if (rank == 0 || rank == 3) spec += tag + "I am " + std::to_string(rank) + "\n";
  }
  EXPECT_EQ(run_with(SK_TAG_SPEC), spec);
  char host[256] = {};
  ASSERT_EQ(gethostname(host, sizeof host - 1), 0);
  const std::string name = host;
  const std::string column(name.size() + 6, ' ');
  EXPECT_EQ(run_with(SK_TAG_HOST),
            column + "same\n[" + name + "  0] I am 0\n[" + name + "  3] I am 3\n");
  EXPECT_EQ(run_with(SK_TAG_SET), by_set);
}

TEST(ExecOutput, AFloodIsShownInPartAndKeptWhole) {
  Session session(4);
  const std::string shown = session.run("flood 30000 line of {rank}");
  EXPECT_LT(shown.size(), 1'100'000u);
  for (const char* rank : {"0", "3"}) {
    std::string expected;
    for (int i = 0; i < 30'000; ++i)
      expected += std::string("line of ") + rank + " " + std::to_string(i) + "\n";
    EXPECT_TRUE(log_of(session, query_of(0, rank)) == expected) << "rank " << rank;
  }
}

TEST(ExecOutput, WhatIsShownAndKeptCanBeSet) {
  Session session(1);
  const sk_session_settings wanted = settings(0, 32, 4096, 65'536);
  ASSERT_EQ(sk_session_configure(session.get(), &wanted), SK_OK) << sk_last_error();
  const std::string shown = session.run("flood 20000 a line");
  EXPECT_LT(shown.size(), 1000u);
  const std::string kept = log_of(session, query_of(1, "0"));
  EXPECT_LT(kept.size(), 100'000u);
  EXPECT_NE(kept.find("were not kept"), std::string::npos);
  EXPECT_TRUE(kept.ends_with("a line 19999\n"));
}

TEST(ExecOutput, MergedLogsAndDisplays) {
  Session session(3);
  session.run("print same\nprint {rank}\nmeta {\"a\":1} picture {rank}");
  EXPECT_EQ(log_of(session, query_of(1, nullptr)), "    same\n[0] 0\n[1] 1\n[2] 2\n");
  EXPECT_EQ(log_of(session, query_of(1, "1,2")), "    same\n[1] 1\n[2] 2\n");
  sk_log_query query = query_of(1, "2");
  query.what = SK_LOG_DISPLAY;
  uint64_t request = 0;
  ASSERT_EQ(sk_session_log(session.get(), &query, &request), SK_OK) << sk_last_error();
  session.answer(request, [](const sk_event& event) {
    ASSERT_EQ(event.mime_count, 1u);
    EXPECT_EQ(std::string(static_cast<const char*>(event.mimes[0].data), event.mimes[0].bytes),
              "picture 2");
    EXPECT_STREQ(event.metadata, "{\"a\":1}");
    EXPECT_EQ(event.total, 1u);
  });
}

TEST(ExecOutput, EveryBadArgumentHasASentence) {
  Session session(2);
  session.run("print up");
  sk_session* const s = session.get();
  const auto refused = [&](sk_status status, sk_status code, const char* word) {
    EXPECT_EQ(status, code) << word;
    EXPECT_NE(std::string(sk_last_error()).find(word), std::string::npos) << sk_last_error();
  };
  const auto configure = [&](sk_session_settings wanted) {
    return sk_session_configure(s, &wanted);
  };
  refused(sk_session_configure(s, nullptr), SK_ERR_INVALID_ARGUMENT, "settings is NULL");
  refused(sk_session_configure(nullptr, nullptr), SK_ERR_BAD_HANDLE, "is null");
  refused(configure(settings(5)), SK_ERR_INVALID_ARGUMENT, "tag is 5");
  refused(configure(settings(-1)), SK_ERR_INVALID_ARGUMENT, "tag is -1");
  refused(configure(settings(0, 3)), SK_ERR_OUT_OF_RANGE, "shown_lines is 3; 16 to 1000000");
  refused(configure(settings(0, 0, 1)), SK_ERR_OUT_OF_RANGE, "shown_bytes is 1");
  refused(configure(settings(0, 0, 0, 1ull << 40)), SK_ERR_OUT_OF_RANGE, "kept_bytes");
  uint64_t request = 0;
  const auto ask = [&](auto change) {
    sk_log_query query = query_of(1, nullptr);
    change(query);
    return sk_session_log(s, &query, &request);
  };
  refused(sk_session_log(s, nullptr, &request), SK_ERR_INVALID_ARGUMENT, "query is NULL");
  refused(ask([](sk_log_query& q) { q.what = 3; }), SK_ERR_INVALID_ARGUMENT, "what is 3");
  refused(ask([](sk_log_query& q) { q.ranks = "2"; }), SK_ERR_OUT_OF_RANGE, "rank 2 asked for");
  refused(ask([](sk_log_query& q) { q.ranks = "x"; }), SK_ERR_INVALID_ARGUMENT, "\"x\"");
  refused(ask([](sk_log_query& q) { q.struct_size = 0; }), SK_ERR_INVALID_ARGUMENT, "struct_size");
  refused(ask([](sk_log_query& q) { q.offset = UINT64_MAX; }), SK_ERR_OUT_OF_RANGE, "offset");
  ASSERT_EQ(ask([](sk_log_query& q) { q.cell = 77; }), SK_OK);
  session.answer(request, [](const sk_event& event) {
    EXPECT_EQ(event.status, SK_ERR_OUT_OF_RANGE);
    EXPECT_NE(std::string(event.text).find("cell 77 is not kept"), std::string::npos);
  });
  EXPECT_EQ(session.run("print usable"), "usable\n");
}

}  // namespace
