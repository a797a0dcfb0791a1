// What goes in at one end comes out at the other, whatever room there is below, and nothing waits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/err.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/transport/tls/wires.h"

namespace sk::tls {
namespace {

using namespace sk::tls::testing_support;
using testing::HasSubstr;

// One direction: fresh bytes are offered each time, so that what was not taken is different when
// it is offered again, and what was taken is overwritten.
struct Flow {
  stream::Pipe& from;
  stream::Pipe& to;
  size_t size;
  size_t kinds;  // Of sizes that parts may have.
  std::string sent, received;

  bool done() const { return sent.size() >= size && received.size() == sent.size(); }

  void push(std::mt19937& random) {
    if (sent.size() >= size) {
      EXPECT_TRUE(from.send({}).ok());
      return;
    }
    static const size_t kSizes[] = {0, 1, 32, 100, 5'000, 16'384, 16'385, 70'000, 300'000};
    std::vector<std::string> parts(random() % 5);
    std::vector<iovec> list;
    std::string offered;
    for (std::string& part : parts) {
      part.resize(random() % (kSizes[random() % kinds] + 1));
      const auto salt = static_cast<unsigned char>(random());
      for (size_t i = 0; i < part.size(); ++i) part[i] = char(salt + i * 7 + (i >> 8));
      list.push_back({.iov_base = part.data(), .iov_len = part.size()});
      offered += part;
    }
    Result<size_t> taken = from.send(list);
    ASSERT_TRUE(taken.ok()) << taken.status().message();
    ASSERT_LE(*taken, offered.size());
    sent.append(offered, 0, *taken);
    for (std::string& part : parts) std::fill(part.begin(), part.end(), 'x');
  }

  void pull(std::mt19937& random) {
    std::vector<std::byte> room(random() % 3 == 0 ? random() % 64 : random() % 200'000);
    Result<size_t> got = to.receive(room);
    ASSERT_TRUE(got.ok()) << got.status().message();
    ASSERT_LE(*got, room.size());
    received.append(reinterpret_cast<const char*>(room.data()), *got);
    ASSERT_LE(received.size(), sent.size());
    const size_t begin = received.size() - *got;
    ASSERT_EQ(received.compare(begin, *got, sent, begin, *got), 0) << "wrong bytes";
  }
};

class TlsBytes : public testing::TestWithParam<std::pair<size_t, uint64_t>> {};

TEST_P(TlsBytes, ComeOutAsTheyWentInBothWays) {
  const auto [room, records_per_key] = GetParam();
  std::mt19937 random(static_cast<unsigned>(room));
  Who who;
  who.records_per_key = records_per_key;
  Stream stream(&random, who, who);
  stream.there->room = stream.back->room = room;
  // What is offered fits the room, or making it up takes the time.
  const size_t size = room < 20'000 ? 5'000 + 100 * room : 3'000'000;
  const size_t kinds = room < 1'000 ? 4 : room < 20'000 ? 5 : 9;
  Flow flows[] = {{*stream.dialer, *stream.acceptor, size, kinds, {}, {}},
                  {*stream.acceptor, *stream.dialer, size, kinds, {}, {}}};
  for (int turn = 0; !flows[0].done() || !flows[1].done(); ++turn) {
    ASSERT_LT(turn, 2'000'000) << "nothing moves any more";
    Flow& flow = flows[random() % 2];
    if (random() % 2 == 0) {
      flow.push(random);
    } else {
      flow.pull(random);
    }
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(ERR_peek_error(), 0U);
  // Nobody could read it on the way.
  const std::string piece = flows[0].sent.substr(1'000, 24);
  EXPECT_EQ(stream.there->bytes.find(piece), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Rooms, TlsBytes,
                         testing::Values(std::pair(size_t{1}, kRecordsPerKey),
                                         std::pair(size_t{7}, uint64_t{3}),
                                         std::pair(size_t{1'000}, kRecordsPerKey),
                                         std::pair(size_t{20'000}, uint64_t{1}),
                                         std::pair(size_t{300'000}, uint64_t{5}),
                                         std::pair(size_t{4'000'000}, kRecordsPerKey)));

// A peer that changes keys often is not taken for a flood, in either direction.
TEST(Tls, ChangesKeysAsOftenAsItLikes) {
  Who who;
  who.records_per_key = 1;
  Stream stream(nullptr, who, who);
  ASSERT_TRUE(shake(stream).dialer.ok());
  for (int i = 0; i < 500; ++i) {
    const std::string text = "message " + std::to_string(i);
    ASSERT_EQ(send_text(*stream.dialer, text).value(), text.size());
    ASSERT_EQ(receive_all(*stream.acceptor), text);
    ASSERT_EQ(send_text(*stream.acceptor, text).value(), text.size());
    ASSERT_EQ(receive_all(*stream.dialer), text);
  }
}

TEST(Tls, NeverAsksAgainWhereThereIsNothing) {
  std::mt19937 random(5);
  Stream stream(&random);
  stream.there->room = stream.back->room = 3'000;
  std::vector<std::byte> room(50'000);
  const std::string text(100'000, 't');
  for (int i = 0; i < 3'000; ++i) {
    for (Asked* asked : {&stream.dialer_asked, &stream.acceptor_asked}) *asked = {};
    stream::Pipe& pipe = random() % 2 == 0 ? *stream.dialer : *stream.acceptor;
    if (random() % 2 == 0) {
      ASSERT_TRUE(send_text(pipe, text).ok());
    } else {
      ASSERT_TRUE(pipe.receive(room).ok());
    }
    for (const Asked& asked : {stream.dialer_asked, stream.acceptor_asked}) {
      EXPECT_LE(asked.sent_none, 2);
      EXPECT_LE(asked.received_none, 1);
      EXPECT_LE(asked.sends, 10);
      EXPECT_LE(asked.receives, 60);
    }
  }
}

TEST(Tls, TakesABoundedAmountWhereNothingGoesOut) {
  Stream stream;
  ASSERT_TRUE(shake(stream).dialer.ok());
  EXPECT_FALSE(stream.dialer->holds_output());
  stream.there->room = 0;
  const std::string text(1'000'000, 't');
  const size_t taken = send_text(*stream.dialer, text).value();
  EXPECT_GT(taken, 100'000U);
  EXPECT_LE(taken, 256U << 10);
  EXPECT_EQ(send_text(*stream.dialer, text).value(), 0U);
  EXPECT_TRUE(stream.dialer->holds_output());
  stream.there->room = size_t{1} << 20;
  EXPECT_EQ(stream.dialer->send({}).value(), 0U);
  EXPECT_FALSE(stream.dialer->holds_output());
  EXPECT_EQ(receive_all(*stream.acceptor), text.substr(0, taken));
}

// Who has something to say first need not wait for room that is there.
TEST(Tls, TakesFirstWordsAndKeepsThemUntilItKnowsTheOtherEnd) {
  Stream stream;
  const std::string text = "first words" + std::string(20'000, 't');
  size_t taken = send_text(*stream.dialer, text.substr(0, 11)).value();
  ASSERT_EQ(taken, 11U);
  taken += send_text(*stream.dialer, text.substr(11)).value();
  EXPECT_EQ(taken, 16'384U);
  EXPECT_EQ(send_text(*stream.dialer, "more").value(), 0U);
  EXPECT_FALSE(stream.dialer->holds_output()) << "room below would not help";
  EXPECT_FALSE(stream.dialer->delivered());
  EXPECT_LT(stream.there->bytes.size(), 1'000U);
  ASSERT_TRUE(shake(stream).dialer.ok());
  EXPECT_TRUE(stream.dialer->delivered());
  taken += send_text(*stream.dialer, std::string_view(text).substr(taken)).value();
  EXPECT_EQ(taken, text.size());
  EXPECT_EQ(receive_all(*stream.acceptor), text);
}

// What the stream below knows of the other end's host is handed on.
TEST(Tls, AsksBelowWhatArrivedAndWhoAnswers) {
  Stream stream;
  ASSERT_TRUE(shake(stream).dialer.ok());
  ASSERT_EQ(send_text(*stream.dialer, "text").value(), 4U);
  EXPECT_FALSE(stream.dialer->holds_output());
  EXPECT_FALSE(stream.dialer->delivered());
  EXPECT_EQ(receive_all(*stream.acceptor), "text");
  EXPECT_TRUE(stream.dialer->delivered());
  EXPECT_TRUE(stream.dialer->look_after().ok());
  stream.there->dead = true;
  EXPECT_EQ(stream.dialer->look_after().code(), SK_ERR_TRANSPORT);
}

TEST(Tls, SaysThatItHoldsInputAndOnlyWhereItCanGiveSome) {
  Stream stream;
  EXPECT_TRUE(stream.dialer->holds_output()) << "its first words";
  EXPECT_FALSE(stream.acceptor->holds_output());
  ASSERT_TRUE(shake(stream).dialer.ok());
  EXPECT_FALSE(stream.acceptor->holds_input());
  EXPECT_EQ(stream.acceptor->fd(), 4711);

  ASSERT_EQ(send_text(*stream.dialer, "abc").value(), 3U);
  ASSERT_EQ(send_text(*stream.dialer, "def").value(), 3U);
  EXPECT_FALSE(stream.acceptor->holds_input()) << "it lies below, where poll() sees it";
  std::byte one[1];
  for (const char expected : std::string("abcdef")) {
    ASSERT_EQ(stream.acceptor->receive(one).value(), 1U);
    EXPECT_EQ(char(one[0]), expected);
    EXPECT_EQ(stream.acceptor->holds_input(), expected != 'f');
  }
  // A part of a record is nothing that a call could give.
  const size_t before = stream.there->bytes.size();
  ASSERT_EQ(send_text(*stream.dialer, "ghi").value(), 3U);
  stream.there->cut = before + 10;
  const std::string rest = stream.there->bytes.substr(before + 10);
  stream.there->bytes.resize(before + 10);
  EXPECT_EQ(stream.acceptor->receive(one).value(), 0U);
  EXPECT_EQ(stream.there->read, before + 10);
  EXPECT_FALSE(stream.acceptor->holds_input());
  stream.there->cut = kNowhere;
  stream.there->bytes += rest;
  EXPECT_EQ(receive_all(*stream.acceptor), "ghi");
}

TEST(Tls, AHeaderTravelsInOneRecordWithWhatFollowsIt) {
  Stream stream;
  ASSERT_TRUE(shake(stream).dialer.ok());
  const size_t before = stream.there->bytes.size();
  std::string header(32, 'h'), body(4'000, 'b');
  const iovec parts[] = {{.iov_base = header.data(), .iov_len = header.size()},
                         {.iov_base = nullptr, .iov_len = 0},
                         {.iov_base = body.data(), .iov_len = body.size()}};
  ASSERT_EQ(stream.dialer->send(parts).value(), header.size() + body.size());
  EXPECT_EQ(stream.there->bytes.size() - before, header.size() + body.size() + 22);
  EXPECT_EQ(receive_all(*stream.acceptor), header + body);
}

TEST(Tls, EndsWhereTheOtherEndGoes) {
  Stream stream;
  ASSERT_TRUE(shake(stream).dialer.ok());
  ASSERT_EQ(send_text(*stream.dialer, "the last words").value(), 14U);
  stream.dialer.reset();
  EXPECT_FALSE(stream.acceptor->ended());
  std::byte some[4];
  ASSERT_EQ(stream.acceptor->receive(some).value(), 4U);
  EXPECT_FALSE(stream.acceptor->ended());
  EXPECT_EQ(receive_all(*stream.acceptor), "last words");
  EXPECT_TRUE(stream.acceptor->ended());
  EXPECT_EQ(stream.acceptor->receive(some).value(), 0U);
  EXPECT_EQ(send_text(*stream.acceptor, "is there anybody").status().code(), SK_ERR_PEER_LOST);
}

// One lane may be closed while the other goes on.
TEST(Tls, ReceivesAndSendsAfterHalfAnEnd) {
  Stream stream;
  ASSERT_TRUE(shake(stream).dialer.ok());
  stream.there->cut = stream.there->bytes.size();
  stream.there->bytes += "lost";
  EXPECT_EQ(receive_all(*stream.acceptor), "");
  EXPECT_TRUE(stream.acceptor->ended());
  ASSERT_EQ(send_text(*stream.acceptor, "an answer").value(), 9U);
  EXPECT_EQ(receive_all(*stream.dialer), "an answer");
  EXPECT_FALSE(stream.dialer->ended());
}

// What came is not lost to a reader because a writer has been told that nobody is there.
TEST(Tls, GivesWhatCameThoughSendingFails) {
  Stream stream;
  ASSERT_TRUE(shake(stream).dialer.ok());
  ASSERT_EQ(send_text(*stream.acceptor, "why I go").value(), 8U);
  stream.acceptor.reset();
  EXPECT_EQ(send_text(*stream.dialer, "a question").status().code(), SK_ERR_PEER_LOST);
  EXPECT_EQ(receive_all(*stream.dialer), "why I go");
  EXPECT_TRUE(stream.dialer->ended());
}

// What all streams share is shared by threads.
TEST(Tls, StreamsOfSeveralThreadsDoNotMeet) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([thread] {
      for (int i = 0; i < 20; ++i) {
        Stream stream;
        ASSERT_TRUE(shake(stream).dialer.ok());
        const std::string text = fmt::format("text {} of thread {}", i, thread);
        ASSERT_EQ(send_text(*stream.dialer, text).value(), text.size());
        EXPECT_EQ(receive_all(*stream.acceptor), text);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Tls, RefusesWhatItCannotUse) {
  const auto make = [](bool below, size_t key, size_t identity, uint64_t records) {
    std::unique_ptr<stream::Pipe> pipe;
    static Asked asked;
    if (below) {
      pipe = std::make_unique<WireEnd>(std::make_shared<Lane>(), std::make_shared<Lane>(), nullptr,
                                       &asked);
    }
    const auto made = make_tls(std::move(pipe), Side::kDials, std::vector<std::byte>(key),
                               std::string(identity, 'i'), records);
    EXPECT_TRUE(made.ok() || made.status().code() == SK_ERR_INVALID_ARGUMENT);
    return made.ok() ? std::string() : made.status().message();
  };
  EXPECT_EQ(make(true, 32, 1, 1), "");
  EXPECT_EQ(make(true, 32, kIdentityBytesMax, 1), "");
  EXPECT_THAT(make(false, 32, 1, 1), HasSubstr("below is null"));
  EXPECT_THAT(make(true, 31, 1, 1), HasSubstr("key has 31 bytes: it must have 32"));
  EXPECT_THAT(make(true, 32, 0, 1), HasSubstr("identity has 0 bytes"));
  EXPECT_THAT(make(true, 32, 129, 1), HasSubstr("identity has 129 bytes: it must have 1 to 128"));
  EXPECT_THAT(make(true, 32, 1, 0), HasSubstr("records_per_key is 0"));
}

}  // namespace
}  // namespace sk::tls
