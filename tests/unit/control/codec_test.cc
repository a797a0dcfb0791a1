// The codec: every message comes back as it went in; every field has bounds.
#include "lib/control/codec.h"

#include <gtest/gtest.h>

namespace sk::control {
namespace {

Status status_of(const Message& message) {
  auto decoded = decode(encode(message));
  return decoded.ok() ? Status() : std::move(decoded.status());
}

TEST(Codec, EventsComeBackWhole) {
  Event event;
  event.kind = SK_EVENT_REPLY;
  event.seq = 7;
  event.cell = 8;
  event.ranks = "0-3";
  event.all_ranks = true;
  event.status = -1;
  event.stream = SK_STREAM_STDERR;
  event.display = SK_DISPLAY_CLEAR;
  event.text = std::string("a\0b", 3);
  event.ename = "E";
  event.evalue = "\xff not UTF-8";
  event.traceback = {"", "line"};
  event.mimes = {{"text/plain", "x"}, {"image/png", std::string(100, '\0')}};
  event.display_id = "id";
  event.metadata = "{\"a\":1}";
  event.tag = "{}";
  event.reply = {9, 1, 2, 3, 4, {"m"}, {{"text/html", "<b>"}}, "t"};
  event.times = {{0, 5, 6}, {4095, INT64_MAX, 0}};
  event.errors = {{{0, 2, 3, 4095}, {"E", "v\xff", {"", "l"}, 3}}, {{1}, {"", "", {}, 0}}};
  const auto decoded = decode(encode(event));
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  EXPECT_EQ(std::get<Event>(decoded.value()), event);
}

TEST(Codec, RecordsComeBackWhole) {
  const Output output{4,
                      5,
                      {{1, StreamRecord{2, "text"}},
                       {-2, DisplayRecord{3, {{"a/b", ""}}, "id", "{}"}},
                       {3, ErrorRecord{"n", "v", {"l1", "l2"}, 3}}}};
  const auto decoded = decode(encode(output));
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  EXPECT_EQ(std::get<Output>(decoded.value()).records, output.records);
  EXPECT_EQ(std::get<Output>(decoded.value()).seq, 5u);
}

TEST(Codec, SignsOfLifeComeBackWhole) {
  const auto decoded = decode(encode(Heartbeat{7, "barrier()", {1, 2, 3, 9}}));
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  const auto& back = std::get<Heartbeat>(decoded.value());
  EXPECT_EQ(back.cell, 7u);
  EXPECT_EQ(back.waits_in, "barrier()");
  EXPECT_EQ(back.waits_for, (std::vector<uint32_t>{1, 2, 3, 9}));
  EXPECT_FALSE(status_of(Heartbeat{1, std::string(kWaitsInMax + 1, 'x'), {1}}).ok());
  EXPECT_FALSE(status_of(Heartbeat{1, "barrier()", {}}).ok());
  EXPECT_FALSE(status_of(Heartbeat{1, "barrier()", {kRankCountMax}}).ok());
}

TEST(Codec, QuestionsComeBackWhole) {
  const auto decoded = decode(encode(InputRequest{7, 8, "a\xff?", true, false, 3}));
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  const auto& back = std::get<InputRequest>(decoded.value());
  EXPECT_EQ(back.cell, 7u);
  EXPECT_EQ(back.request, 8u);
  EXPECT_EQ(back.prompt, "a\xff?");
  EXPECT_TRUE(back.password && !back.withdrawn);
  EXPECT_EQ(back.interrupts, 3u);
}

TEST(Codec, GroupsComeBackWhole) {
  const auto group = decode(encode(RankGroup{7, {1, 4095}, 65535, 1024, true}));
  ASSERT_TRUE(group.ok()) << group.status().message();
  const auto& back = std::get<RankGroup>(group.value());
  EXPECT_EQ(back.epoch, 7u);
  EXPECT_EQ(back.missing, (std::vector<uint32_t>{1, 4095}));
  EXPECT_EQ(back.torch_port, 65535);
  EXPECT_EQ(back.jax_port, 1024);
  EXPECT_TRUE(back.wanted);
  for (bool after_cell : {false, true}) {
    const auto regroup = decode(encode(Regroup{7, after_cell}));
    ASSERT_TRUE(regroup.ok()) << regroup.status().message();
    EXPECT_EQ(std::get<Regroup>(regroup.value()).epoch, 7u);
    EXPECT_EQ(std::get<Regroup>(regroup.value()).after_cell, after_cell);
  }
}

TEST(Codec, WhoIsAbsentComesBackWhole) {
  const Absent absent{7, {{{0, 1, 2, 9, 4095}, "the cell has ended there"}, {{3}, "\xff"}}};
  const auto back = decode(encode(absent));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(std::get<Absent>(back.value()).cell, 7u);
  EXPECT_EQ(std::get<Absent>(back.value()).groups, absent.groups);
  Done done{7, SK_CELL_OK, 3};
  done.lingers = true;
  const auto end = decode(encode(done));
  ASSERT_TRUE(end.ok()) << end.status().message();
  EXPECT_TRUE(std::get<Done>(end.value()).lingers);
}

TEST(Codec, OneFieldOutOfBoundsIsNamed) {
  struct Case {
    Message message;
    const char* word;
  };
  Open open;
  open.ranks = 1;
  open.argv = {"program"};
  EXPECT_TRUE(status_of(open).ok());
  const auto with = [&](auto change) {
    Open changed = open;
    change(changed);
    return Message(changed);
  };
  const Case cases[] = {
      {Hello{9, 0, 1, false, ""}, "version 9"},
      {Hello{kProtocolVersion, kRankCountMax, 1, false, ""}, "rank is 4096"},
      {Welcome{2, 0, 0, "", 0}, "version 2"},
      {with([](Open& o) { o.ranks = 0; }), "ranks is 0"},
      {with([](Open& o) { o.ranks = 5000; }), "ranks is 5000"},
      {with([](Open& o) { o.argv.clear(); }), "argv"},
      {with([](Open& o) { o.argv = {std::string("a\0b", 3)}; }), "NUL in argv"},
      {with([](Open& o) { o.env = {"NOVALUE"}; }), "env entry"},
      {with([](Open& o) { o.lease_ms = UINT64_MAX; }), "lease"},
      {with([](Open& o) { o.interrupt_ms = UINT64_MAX; }), "interrupt time"},
      {with([](Open& o) { o.name = "../up"; }), "session name"},
      {with([](Open& o) { o.token.assign(300, 'x'); }), "token size"},
      {Attach{9, ""}, "version 9"},
      {Attach{kProtocolVersion, std::string(300, 'x')}, "token size"},
      {RankGroup{1, {kRankCountMax}}, "missing rank is 4096"},
      {Absent{}, "cell is 0"},
      {Absent{1, {{{}, "why"}}}, "absent ranks"},
      {Absent{1, {{{kRankCountMax}, "why"}}}, "absent ranks"},
      {Absent{1, {{{1}, std::string(2000, 'x')}}}, "reason size"},
      {Absent{1, std::vector<Absent::Group>(17)}, "groups"},
      {Execute{}, "cell is 0"},
      {Interrupt{1, 3}, "interrupt level"},
      {Ask{1, SK_REQUEST_EXECUTE, "", 0, 0}, "kind of question"},
      {Ask{1, SK_REQUEST_COMPLETE, "abc", 4, 0}, "cursor is 4"},
      {Ask{1, SK_REQUEST_INSPECT, "abc", 0, 2}, "detail"},
      {Reply{1, 0, 4, 0, 0, {}, {}, ""}, "answer"},
      {Reply{1, 0, 0, 2, 1, {}, {}, ""}, "start"},
      {Output{1, 0, {}}, "sequence number"},
      {Output{1, 1, {{0, StreamRecord{3, ""}}}}, "stream is 3"},
      {Output{1, 1, {{0, DisplayRecord{0, {}, "", ""}}}}, "kind of display"},
      {Output{1, 1, {{0, DisplayRecord{1, {{"nosuch", ""}}, "", ""}}}}, "MIME type"},
      {Output{1, 1, {{0, DisplayRecord{1, {{"a/\n", ""}}, "", ""}}}}, "MIME type"},
      {Output{1, 1, {{0, ErrorRecord{"", "", {}, 4}}}}, "error flags"},
      {Done{1, SK_CELL_ABORTED, 0}, "status of a cell"},
      {Done{1, SK_CELL_OK, 0, -1, 0}, "time sign"},
      {Done{1, SK_CELL_OK, 0, 0, -1}, "time sign"},
      {Event{}, "kind of event"},
  };
  for (const Case& one : cases) {
    const Status status = status_of(one.message);
    EXPECT_EQ(status.code(), SK_ERR_TRANSPORT) << one.word;
    EXPECT_NE(status.message().find(one.word), std::string::npos) << status.message();
  }
}

TEST(Codec, RefusesWhatIsNoMessage) {
  for (size_t size : {0, 1, 7, 9}) EXPECT_FALSE(decode(std::string(size, 'x')).ok());
  EXPECT_FALSE(decode(std::string(64, '\xff')).ok());
  std::string segments = encode(Shutdown{});
  segments[0] = 1;  // Claims two segments.
  EXPECT_FALSE(decode(segments).ok());
}

}  // namespace
}  // namespace sk::control
