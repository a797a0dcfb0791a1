// A wire that changes, cuts, repeats or drops bytes: an error, never wrong bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/transport/tls/wires.h"

namespace sk::tls {
namespace {

using namespace sk::tls::testing_support;
using testing::AnyOf;
using testing::HasSubstr;

// Shakes hands, sends a text each way, and closes: true if all of it came, and no error.
bool runs_well(Stream& stream) {
  Ends ends = shake(stream);
  const std::string texts[] = {"from the dialing end", "from the accepting end"};
  if (ends.dialer.ok()) ends.dialer = send_text(*stream.dialer, texts[0]).status().clone();
  if (ends.acceptor.ok()) ends.acceptor = send_text(*stream.acceptor, texts[1]).status().clone();
  stream.there->closed = stream.back->closed = true;
  const std::string came[] = {receive_all(*stream.acceptor, &ends.acceptor),
                              receive_all(*stream.dialer, &ends.dialer)};
  for (int i = 0; i < 2; ++i) EXPECT_EQ(texts[i].substr(0, came[i].size()), came[i]) << "wrong";
  for (const Status* status : {&ends.dialer, &ends.acceptor}) {
    if (status->ok()) continue;
    EXPECT_THAT(status->code(), AnyOf(SK_ERR_TRUST, SK_ERR_TRANSPORT, SK_ERR_PEER_LOST));
    EXPECT_THAT(status->message(), HasSubstr("TLS: "));
  }
  return ends.dialer.ok() && ends.acceptor.ok() && came[0] == texts[0] && came[1] == texts[1];
}

// Sizes of what crosses until both ends are done.
struct Sizes {
  size_t there, back;
};
Sizes handshake_sizes() {
  Stream stream;
  const Ends ends = shake(stream);
  EXPECT_TRUE(ends.dialer.ok() && ends.acceptor.ok());
  return {stream.there->bytes.size(), stream.back->bytes.size()};
}

TEST(TlsTamper, EachByteOfAHandshakeCounts) {
  Stream untouched;
  ASSERT_TRUE(runs_well(untouched));
  const Sizes sizes = handshake_sizes();
  std::mt19937 random(3);
  int unnoticed = 0;
  for (const bool there : {true, false}) {
    for (size_t at = 0; at < (there ? sizes.there : sizes.back); ++at) {
      Stream stream(at % 3 == 0 ? &random : nullptr);
      const auto bits = static_cast<uint8_t>(1 + random() % 255);
      (there ? stream.there : stream.back)->changes[at] = bits;
      if (runs_well(stream)) ++unnoticed;
    }
  }
  // The version in the header of a record in the clear means nothing (RFC 8446, 5.1).
  EXPECT_LE(unnoticed, 4);
}

TEST(TlsTamper, AHandshakeThatIsCutAnywhereFails) {
  const Sizes sizes = handshake_sizes();
  for (const bool there : {true, false}) {
    for (size_t at = 0; at < (there ? sizes.there : sizes.back); ++at) {
      Stream stream;
      (there ? stream.there : stream.back)->cut = at;
      EXPECT_FALSE(runs_well(stream)) << "cut at " << at;
      stream::Pipe& starved = there ? *stream.acceptor : *stream.dialer;
      const Status status = starved.send({}).status().clone();
      EXPECT_THAT(status.code(), AnyOf(SK_ERR_PEER_LOST, SK_ERR_TRANSPORT)) << status.message();
      EXPECT_FALSE(starved.ended());
      if (at == 0) {
        EXPECT_EQ(status.code(), SK_ERR_PEER_LOST);
      }
      if (at == 3) {
        EXPECT_THAT(status.message(), HasSubstr("cut inside a record"));
      }
    }
  }
}

// Handshake done, and `texts` on the way there, each a record. Where each begins, and where the
// last one ends.
std::vector<size_t> put_records(Stream& stream, const std::vector<std::string>& texts) {
  EXPECT_TRUE(shake(stream).dialer.ok());
  std::vector<size_t> begins = {stream.there->bytes.size()};
  for (const std::string& text : texts) {
    EXPECT_EQ(send_text(*stream.dialer, text).value(), text.size());
    begins.push_back(stream.there->bytes.size());
  }
  return begins;
}

TEST(TlsTamper, EachByteOfARecordCounts) {
  const std::vector<std::string> texts = {"the first", std::string(70, 'm'), "the last"};
  for (size_t at = 5;; ++at) {
    Stream stream;
    const std::vector<size_t> begins = put_records(stream, texts);
    if (at >= begins[2] - begins[1]) break;
    stream.there->changes[begins[1] + at] = uint8_t(1U << (at % 8));
    Status status;
    EXPECT_EQ(receive_all(*stream.acceptor, &status), "the first");
    ASSERT_EQ(status.code(), SK_ERR_TRANSPORT);
    EXPECT_EQ(status.message(), "TLS: bytes were changed on the way (bad record MAC)");
    // The other end hears why.
    EXPECT_EQ(receive_all(*stream.dialer, &status), "");
    EXPECT_EQ(status.code(), SK_ERR_TRANSPORT);
    EXPECT_THAT(status.message(), HasSubstr("received bytes that were changed on the way"));
  }
}

TEST(TlsTamper, EachBitOfARecordsHeaderCounts) {
  for (size_t bit = 0; bit < 40; ++bit) {
    Stream stream;
    const std::vector<size_t> begins = put_records(stream, {"the first", "second", "the last"});
    stream.there->changes[begins[1] + bit / 8] = uint8_t(1U << (bit % 8));
    Status status;
    EXPECT_EQ(receive_all(*stream.acceptor, &status), "the first");
    stream.there->closed = true;  // It may wait for a longer record.
    if (status.ok()) {
      EXPECT_EQ(receive_all(*stream.acceptor, &status), "");
    }
    // Where it waits for more than comes, the stream seems to be cut.
    EXPECT_THAT(status.code(), AnyOf(SK_ERR_TRANSPORT, SK_ERR_PEER_LOST))
        << "bit " << bit << ": " << status.message();
  }
}

TEST(TlsTamper, BulkIsGivenUpToTheRecordThatWasChanged) {
  std::mt19937 random(8);
  std::string text(200'000, '\0');
  for (char& letter : text) letter = char(random());
  for (int round = 0; round < 100; ++round) {
    Stream stream(round % 2 == 0 ? &random : nullptr);
    ASSERT_TRUE(shake(stream).dialer.ok());
    const size_t begin = stream.there->bytes.size();
    while (stream.dialer->holds_output()) ASSERT_TRUE(stream.dialer->send({}).ok());
    const size_t at = random() % text.size();
    stream.there->changes[begin + at] = 0x10;
    Status status;
    std::string came;
    for (size_t sent = 0, turn = 0; status.ok() && turn < 100'000; ++turn) {
      auto more = send_text(*stream.dialer, std::string_view(text).substr(sent));
      if (more.ok()) sent += *more;
      came += receive_all(*stream.acceptor, &status);
      if (sent == text.size() && !stream.dialer->holds_output()) stream.there->closed = true;
    }
    EXPECT_EQ(status.code(), SK_ERR_TRANSPORT);
    EXPECT_LE(came.size(), at);
    EXPECT_EQ(text.compare(0, came.size(), came), 0) << "wrong bytes";
  }
}

TEST(TlsTamper, AnEndInsideARecordIsACutAndOneBetweenIsAnEnd) {
  const std::vector<std::string> texts = {"the first", "second", "the last"};
  Stream whole;
  const std::vector<size_t> begins = put_records(whole, texts);
  for (size_t at = begins[0]; at <= begins[3]; ++at) {
    Stream stream;
    put_records(stream, texts);
    stream.there->cut = at;
    stream.there->closed = true;
    Status status;
    const std::string came = receive_all(*stream.acceptor, &status);
    std::string expected;
    for (size_t i = 0; i < 3; ++i) expected += at >= begins[i + 1] ? texts[i] : "";
    EXPECT_EQ(came, expected);
    if (std::find(begins.begin(), begins.end(), at) != begins.end()) {
      EXPECT_TRUE(status.ok()) << status.message();
      EXPECT_TRUE(stream.acceptor->ended());
      continue;
    }
    EXPECT_FALSE(stream.acceptor->ended());
    EXPECT_EQ(status.code(), SK_ERR_PEER_LOST);
    EXPECT_THAT(status.message(), HasSubstr("cut inside a record"));
  }
}

TEST(TlsTamper, RecordsCannotBeDroppedRepeatedOrExchanged) {
  const std::vector<std::string> texts = {"one.", "two.", "six."};
  for (const std::string order : {"12", "20", "0012", "0210", "1012", "011"}) {
    Stream stream;
    const std::vector<size_t> begins = put_records(stream, texts);
    const std::string before = stream.there->bytes;
    stream.there->bytes.resize(begins[0]);
    for (const char which : order) {
      const size_t i = size_t(which - '0');
      stream.there->bytes += before.substr(begins[i], begins[i + 1] - begins[i]);
    }
    Status status;
    const std::string came = receive_all(*stream.acceptor, &status);
    EXPECT_EQ(status.code(), SK_ERR_TRANSPORT) << order;
    EXPECT_EQ(std::string("one.two.six.").substr(0, came.size()), came) << order;
  }
}

// A record of another stream under the same key, or of the other lane, is none of this one.
TEST(TlsTamper, ARecordOfAnotherLaneIsNone) {
  Stream stream, other;
  const size_t begin = put_records(other, {"elsewhere"})[0];
  put_records(stream, {});
  stream.there->bytes += other.there->bytes.substr(begin);
  Status status;
  EXPECT_EQ(receive_all(*stream.acceptor, &status), "");
  EXPECT_EQ(status.code(), SK_ERR_TRANSPORT);

  Stream mirror;
  const size_t own = put_records(mirror, {"an echo"})[0];
  mirror.back->bytes += mirror.there->bytes.substr(own);
  EXPECT_EQ(receive_all(*mirror.dialer, &status), "");
  EXPECT_EQ(status.code(), SK_ERR_TRANSPORT);
}

}  // namespace
}  // namespace sk::tls
