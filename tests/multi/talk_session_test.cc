// Input, comms, answers of busy ranks: through the C ABI alone, with stub ranks.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "sk/talk.h"
#include "tests/multi/exec_session.h"

namespace {

using sk::testing_support::Gate;
using sk::testing_support::kWaitMs;

// An event that outlives the next poll.
struct Seen {
  int32_t kind = 0;
  uint64_t cell = 0, request = 0;
  int32_t status = 0, answer = 0;
  std::string ranks, text, comm, target, evalue, ename;
  std::vector<std::string> buffers, strings;
};

class Session : public sk::testing_support::Session {
 public:
  using sk::testing_support::Session::Session;

  uint64_t start(const std::string& code, bool input = true, const char* expressions = nullptr) {
    sk_exec_options options = {};
    options.struct_size = sizeof options;
    options.allow_input = input ? 1 : 0;
    options.expressions = expressions;
    uint64_t cell = 0;
    EXPECT_EQ(sk_exec(get(), nullptr, code.data(), code.size(), &options, &cell), SK_OK)
        << sk_last_error();
    return cell;
  }
  // The next event that `wanted` takes; what comes before it is kept in `passed`.
  Seen next(const std::function<bool(const Seen&)>& wanted) {
    passed.clear();
    while (true) {
      sk_event event = {};
      event.struct_size = sizeof event;
      if (sk_session_poll(get(), kWaitMs, &event) != SK_OK || event.kind == SK_EVENT_NONE) {
        ADD_FAILURE() << "the event does not come: " << sk_last_error();
        return {};
      }
      Seen seen{event.kind,
                event.cell,
                event.request,
                event.status,
                event.answer,
                event.ranks,
                {event.text, event.text_bytes},
                event.comm,
                event.target,
                event.evalue,
                event.ename,
                {},
                {}};
      for (uint64_t i = 0; i < event.mime_count; ++i)
        seen.buffers.emplace_back(static_cast<const char*>(event.mimes[i].data),
                                  event.mimes[i].bytes);
      for (uint64_t i = 0; i < event.string_count; ++i) seen.strings.push_back(event.strings[i]);
      if (wanted(seen)) return seen;
      passed.push_back(std::move(seen));
    }
  }
  Seen next(int32_t kind) {
    return next([kind](const Seen& seen) { return seen.kind == kind; });
  }
  Seen end(uint64_t cell) {
    return next([cell](const Seen& s) { return s.kind == SK_EVENT_CELL_DONE && s.cell == cell; });
  }
  // The text on streams among what `next` passed.
  std::string text() const {
    std::string text;
    for (const Seen& seen : passed)
      if (seen.kind == SK_EVENT_STREAM) text += seen.text;
    return text;
  }
  bool passed_a(int32_t kind) const {
    for (const Seen& seen : passed)
      if (seen.kind == kind) return true;
    return false;
  }
  void answer(const Seen& prompt, const std::string& text) {
    EXPECT_EQ(sk_session_answer(get(), prompt.request, text.data(), text.size()), SK_OK);
  }
  uint64_t comm(int32_t kind, const char* id, const std::string& data,
                const std::vector<sk_mime>& buffers = {}, const char* target = "stub") {
    sk_comm_message message = {};
    message.struct_size = sizeof message;
    message.kind = kind;
    message.comm = id;
    message.target = target;
    message.data = data.data();
    message.data_bytes = data.size();
    message.buffers = buffers.data();
    message.buffer_count = buffers.size();
    uint64_t cell = 0;
    EXPECT_EQ(sk_session_comm(get(), &message, &cell), SK_OK) << sk_last_error();
    return cell;
  }

  std::vector<Seen> passed;
};

// ---- input ------------------------------------------------------------------------------------

TEST(TalkInput, TheSameQuestionIsAskedOnce) {
  Session session(4);
  const uint64_t cell = session.start("print before\ninput name?");
  const Seen prompt = session.next(SK_EVENT_INPUT);
  EXPECT_EQ(prompt.cell, cell);
  EXPECT_EQ(prompt.text, "name?");
  EXPECT_EQ(prompt.ranks, "0-3");
  session.answer(prompt, "Ada");
  EXPECT_EQ(session.end(cell).status, SK_CELL_OK);
  EXPECT_EQ(session.text().substr(session.text().size() - 8), "got Ada\n");
  EXPECT_FALSE(session.passed_a(SK_EVENT_INPUT));
}

TEST(TalkInput, DifferentQuestionsComeOneByOne) {
  Session session(3);
  const uint64_t cell = session.start("input {rank}?");
  for (const char* rank : {"0", "1", "2"}) {
    const Seen prompt = session.next(SK_EVENT_INPUT);
    EXPECT_EQ(prompt.text, "[" + std::string(rank) + "] " + rank + "?");
    session.answer(prompt, std::string("to ") + rank);
  }
  EXPECT_EQ(session.end(cell).status, SK_CELL_OK);
  const std::string text = session.text();
  EXPECT_NE(text.find("[2] got to 2\n"), std::string::npos) << text;
}

TEST(TalkInput, OneRankAsksWhileOthersWorkOrAreDone) {
  Session session(3);
  const uint64_t cell = session.start("on 1 password secret?\non 2 sleep 60000");
  const Seen prompt = session.next(SK_EVENT_INPUT);
  EXPECT_EQ(prompt.text, "[1] secret?");
  EXPECT_EQ(prompt.answer, 1);
  session.answer(prompt, "");  // An empty line is a line.
  EXPECT_EQ(sk_session_interrupt(session.get()), SK_OK);
  EXPECT_EQ(session.end(cell).status, SK_CELL_ERROR);
}

TEST(TalkInput, RefusedWithoutLeaveAndAfterTheEnd) {
  Session session(2);
  const uint64_t cell = session.start("input x", /*input=*/false);
  const Seen error = session.next(SK_EVENT_ERROR);
  EXPECT_NE(error.evalue.find("takes no input requests"), std::string::npos) << error.evalue;
  EXPECT_EQ(session.end(cell).status, SK_CELL_ERROR);
}

TEST(TalkInput, TheEndOfInputIsToldApart) {
  Session session(2);
  const uint64_t cell = session.start("input x");
  const Seen prompt = session.next(SK_EVENT_INPUT);
  EXPECT_EQ(sk_session_answer(session.get(), prompt.request, nullptr, 0), SK_OK);
  EXPECT_EQ(session.next(SK_EVENT_ERROR).ename, "EOFError");
  EXPECT_EQ(session.end(cell).status, SK_CELL_ERROR);
}

TEST(TalkInput, AnInterruptEndsTheWaitAndLateAnswersDoNothing) {
  Session session(2);
  for (int round = 0; round < 3; ++round) {
    const uint64_t cell = session.start("input x");
    const Seen prompt = session.next(SK_EVENT_INPUT);
    EXPECT_EQ(sk_session_interrupt(session.get()), SK_OK);
    EXPECT_EQ(session.next(SK_EVENT_INPUT_END).request, prompt.request);
    EXPECT_EQ(session.next(SK_EVENT_ERROR).ename, "KeyboardInterrupt");
    EXPECT_EQ(session.end(cell).status, SK_CELL_ERROR);
    session.answer(prompt, "late");
  }
  const uint64_t cell = session.start("input y");
  session.answer(session.next(SK_EVENT_INPUT), "in time");
  EXPECT_EQ(session.end(cell).status, SK_CELL_OK);
  EXPECT_EQ(session.text(), "got in time\n");
}

// Nor does an answer that came in time, where it is looked for later: what the controller refuses
// because of the interrupt would else be another error than that.
TEST(TalkInput, AnInterruptIsToldBeforeAnAnswer) {
  Session session(1);  // Another might ask only after the answer.
  const uint64_t cell = session.start("asklate x");
  session.answer(session.next(SK_EVENT_INPUT), "in time");
  EXPECT_EQ(sk_session_interrupt(session.get()), SK_OK);
  EXPECT_EQ(session.next(SK_EVENT_ERROR).ename, "KeyboardInterrupt");
  EXPECT_EQ(session.end(cell).status, SK_CELL_ERROR);
  EXPECT_EQ(session.text(), "");
  const uint64_t next = session.start("input y");
  session.answer(session.next(SK_EVENT_INPUT), "to this one");
  EXPECT_EQ(session.end(next).status, SK_CELL_OK);
  EXPECT_EQ(session.text(), "got to this one\n");
}

TEST(TalkInput, ADeathWhileOthersWaitEndsTheCell) {
  const Gate gate;
  Session session(3);
  const uint64_t cell = session.start(gate.wait(1) + "on 1 die 9\ninput x");
  const Seen prompt = session.next(SK_EVENT_INPUT);
  EXPECT_EQ(prompt.text, "[0,2] x");
  gate.open();
  EXPECT_EQ(session.end(cell).status, SK_CELL_ERROR);
  EXPECT_TRUE(session.passed_a(SK_EVENT_INPUT_END));
}

// ---- the cell's answer, and answers of busy ranks ---------------------------------------------

TEST(TalkReply, TheLowestRankSpeaks) {
  Session session(3);
  const uint64_t cell = session.start("reply {\"from\":{rank}}");
  EXPECT_EQ(session.end(cell).text, "{\"from\":0}");
  EXPECT_EQ(session.end(session.start("print x")).text, "");
}

TEST(TalkBusy, NamesAreCompletedAndInspectedWhileAllRanksAreStuckInACell) {
  Session session(2);
  session.end(session.start("name apple a fruit\nname apricot another"));
  // With signals blocked and nothing read, as in a C call that holds the language's lock.
  const uint64_t cell = session.start("print on\nhang 3000");
  session.next(SK_EVENT_STREAM);
  uint64_t request = 0;
  ASSERT_EQ(sk_session_ask(session.get(), SK_REQUEST_COMPLETE, "x = ap", 6, 6, 0, &request), SK_OK);
  const Seen names = session.next(SK_EVENT_REPLY);
  EXPECT_EQ(names.status, SK_OK);
  EXPECT_EQ(names.strings, (std::vector<std::string>{"apple", "apricot"}));
  ASSERT_EQ(sk_session_ask(session.get(), SK_REQUEST_INSPECT, "apple", 5, 2, 0, &request), SK_OK);
  const Seen help = session.next(SK_EVENT_REPLY);
  EXPECT_EQ(help.answer, 1);
  EXPECT_EQ(help.buffers, (std::vector<std::string>{"a fruit"}));
  EXPECT_FALSE(session.passed_a(SK_EVENT_CELL_DONE));
  session.end(cell);
}

// ---- comms ------------------------------------------------------------------------------------

TEST(TalkComm, EachRankHasItsOwn) {
  Session session(2);
  session.end(session.start("print up"));
  const uint64_t opening = session.start("comm OPEN w{rank} {\"value\":{rank}}");
  std::vector<std::string> opened;
  for (int i = 0; i < 2; ++i) {
    const Seen open = session.next(SK_EVENT_COMM);
    EXPECT_EQ(open.answer, SK_COMM_OPEN);
    EXPECT_EQ(open.target, "stub");
    EXPECT_EQ(open.text, "{\"value\":" + open.ranks + "}");
    EXPECT_EQ(open.comm, "w" + open.ranks);
  }
  session.end(opening);
  const std::string bytes("\0\xff\x80", 3);
  const sk_mime buffer = {nullptr, bytes.data(), bytes.size()};
  const uint64_t cell = session.comm(SK_COMM_MSG, "w1", "{\"v\":7}", {buffer});
  EXPECT_EQ(session.end(cell).status, SK_CELL_OK);
  EXPECT_EQ(session.text(), "[1] comm w1 got {\"v\":7}\n");
  Seen echo;
  for (const Seen& seen : session.passed) {
    EXPECT_EQ(seen.cell, cell);
    if (seen.kind == SK_EVENT_COMM) echo = seen;
  }
  EXPECT_EQ(echo.comm, "w1");
  EXPECT_EQ(echo.ranks, "1");
  EXPECT_EQ(echo.text, "{\"v\":7}");
  EXPECT_EQ(echo.buffers, (std::vector<std::string>{bytes}));
}

TEST(TalkComm, MessagesKeepTheirPlaceBetweenCells) {
  Session session(1);
  session.end(session.start("comm OPEN a {}"));
  const uint64_t first = session.start("sleep 200\nprint first");
  const uint64_t message = session.comm(SK_COMM_MSG, "a", "{}");
  const uint64_t second = session.start("print second");
  session.end(first);
  session.end(message);
  EXPECT_EQ(session.text(), "comm a got {}\n");
  session.end(second);
  EXPECT_EQ(session.text(), "second\n");
}

TEST(TalkComm, OneThatTheSessionOpensIsOnEveryRank) {
  Session session(3);
  session.end(session.start("print up"));
  session.end(session.comm(SK_COMM_OPEN, "s", "{}"));
  session.end(session.comm(SK_COMM_MSG, "s", "{}"));
  int echoes = 0;
  for (const Seen& seen : session.passed) echoes += seen.kind == SK_EVENT_COMM ? 1 : 0;
  EXPECT_EQ(echoes, 3);
  session.end(session.comm(SK_COMM_CLOSE, "s", "{}"));
  EXPECT_FALSE(session.passed_a(SK_EVENT_COMM));
}

TEST(TalkComm, WhatNobodyHasIsClosedWithASentence) {
  Session session(2);
  session.end(session.start("print up"));
  session.end(session.comm(SK_COMM_OPEN, "x", "{}", {}, "nowhere"));
  ASSERT_TRUE(session.passed_a(SK_EVENT_COMM));
  Seen closed;
  for (const Seen& seen : session.passed)
    if (seen.kind == SK_EVENT_COMM) closed = seen;
  EXPECT_EQ(closed.answer, SK_COMM_CLOSE);
  EXPECT_NE(closed.text.find("no such target"), std::string::npos);
  session.end(session.comm(SK_COMM_MSG, "unknown", "{}"));
  ASSERT_TRUE(session.passed_a(SK_EVENT_COMM));
  EXPECT_NE(session.passed[0].text.find("no rank has this comm"), std::string::npos);
}

TEST(TalkComm, AHandlerIsInterruptedAndADeathEndsIt) {
  Session session(2);
  session.end(session.start("comm OPEN w{rank} {}"));
  uint64_t cell = session.comm(SK_COMM_MSG, "w0", "{\"do\":\"sleep\"}");
  session.next(SK_EVENT_STREAM);
  EXPECT_EQ(sk_session_interrupt(session.get()), SK_OK);
  session.end(cell);
  cell = session.comm(SK_COMM_MSG, "w1", "{\"do\":\"die\"}");
  session.end(cell);
  EXPECT_TRUE(session.passed_a(SK_EVENT_COMM));  // Closed with its owner.
}

// ---- bad input --------------------------------------------------------------------------------

TEST(TalkBadInput, EveryBadArgumentHasASentence) {
  Session session(1);
  session.end(session.start("print up"));
  sk_session* const s = session.get();
  uint64_t cell = 0;
  const auto comm = [&](const std::function<void(sk_comm_message&)>& change) {
    sk_comm_message message = {};
    message.struct_size = sizeof message;
    message.kind = SK_COMM_OPEN;
    message.comm = "id";
    message.target = "t";
    change(message);
    return sk_session_comm(s, &message, &cell);
  };
  using M = sk_comm_message;
  const std::string long_name(2000, 'n');
  const sk_mime no_data = {nullptr, nullptr, 4};
  sk_exec_options options = {};
  options.struct_size = sizeof options;
  options.expressions = "a, b";
  const auto expect = [](const char* name, sk_status got, sk_status code, const char* word) {
    EXPECT_EQ(got, code) << name;
    EXPECT_NE(std::string(sk_last_error()).find(word), std::string::npos)
        << name << ": " << sk_last_error();
  };
  expect("null session", sk_session_answer(nullptr, 1, "", 0), SK_ERR_BAD_HANDLE, "is null");
  expect("null text", sk_session_answer(s, 1, nullptr, 3), SK_ERR_INVALID_ARGUMENT, "text is NULL");
  expect("long text", sk_session_answer(s, 1, "x", 1ull << 40), SK_ERR_OUT_OF_RANGE, "limit");
  expect("null message", sk_session_comm(s, nullptr, &cell), SK_ERR_INVALID_ARGUMENT, "message");
  expect("no size", comm([](M& m) { m.struct_size = 0; }), SK_ERR_INVALID_ARGUMENT, "struct_size");
  expect("kind", comm([](M& m) { m.kind = 9; }), SK_ERR_INVALID_ARGUMENT, "kind is 9");
  expect("no id", comm([](M& m) { m.comm = ""; }), SK_ERR_INVALID_ARGUMENT, "comm has 0 bytes");
  expect("long id", comm([&](M& m) { m.comm = long_name.c_str(); }), SK_ERR_INVALID_ARGUMENT,
         "2000 bytes");
  expect("no target", comm([](M& m) { m.target = nullptr; }), SK_ERR_INVALID_ARGUMENT, "target");
  expect("null data", comm([](M& m) { m.data_bytes = 2; }), SK_ERR_INVALID_ARGUMENT,
         "data is NULL");
  expect("long data", comm([](M& m) { m.data = "x", m.data_bytes = 1ull << 40; }),
         SK_ERR_OUT_OF_RANGE, "limit");
  expect("metadata", comm([](M& m) { m.metadata = "[1]"; }), SK_ERR_INVALID_ARGUMENT,
         "JSON object");
  expect("null buffers", comm([](M& m) { m.buffer_count = 1; }), SK_ERR_INVALID_ARGUMENT,
         "buffers at NULL");
  expect("null buffer", comm([&](M& m) { m.buffers = &no_data, m.buffer_count = 1; }),
         SK_ERR_INVALID_ARGUMENT, "buffers[0]");
  expect("expressions", sk_exec(s, nullptr, "x", 1, &options, &cell), SK_ERR_INVALID_ARGUMENT,
         "expressions");
  expect("null worker", sk_worker_input(nullptr, "x", 0, 0, nullptr), SK_ERR_BAD_HANDLE, "is null");
  expect("null worker", sk_worker_snapshot(nullptr, "x", nullptr, 0), SK_ERR_BAD_HANDLE, "is null");
  session.end(session.start("print usable"));
  EXPECT_EQ(session.text(), "usable\n");
}

}  // namespace
