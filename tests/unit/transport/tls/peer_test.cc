// Our end and OpenSSL's own speak the same TLS, and agree on what we say that is used.
#include "tests/unit/transport/tls/peer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <string>

#include "tests/unit/transport/tls/wires.h"

namespace sk::tls {
namespace {

using namespace sk::tls::testing_support;

TEST(TlsPeer, IsLetInAndSpeaksAsWeDo) {
  PeerDials all(context_with_key());
  ASSERT_TRUE(all.shake().ok());
  SSL* const ssl = all.peer.ssl();
  EXPECT_STREQ(SSL_get_version(ssl), "TLSv1.3");
  EXPECT_EQ(SSL_session_reused(ssl), 1) << "the key was not used";
  EXPECT_NE(SSL_get_negotiated_group(ssl), 0) << "no fresh exchange took place";
  EXPECT_EQ(SSL_get_peer_cert_chain(ssl), nullptr);

  ASSERT_EQ(SSL_write(ssl, "hello", 5), 5);
  all.peer.move();
  EXPECT_EQ(receive_all(*all.stream.acceptor), "hello");
  std::string text(100'000, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = char(i * i >> 4);
  ASSERT_EQ(send_text(*all.stream.acceptor, text).value(), text.size());
  all.peer.move();
  EXPECT_EQ(all.peer.received, text);
  ASSERT_EQ(SSL_write(ssl, text.data(), int(text.size())), int(text.size()));
  all.peer.move();
  EXPECT_EQ(receive_all(*all.stream.acceptor), text);
}

TEST(TlsPeer, GetsNoTicket) {
  PeerDials all(context_with_key());
  all.peer.move();
  ASSERT_EQ(receive_all(*all.stream.acceptor), "");
  all.peer.move();  // Its last words of the handshake.
  const size_t before = all.stream.back->bytes.size();
  ASSERT_EQ(receive_all(*all.stream.acceptor), "");
  ASSERT_EQ(send_text(*all.stream.acceptor, "text").value(), 4U);
  EXPECT_EQ(all.stream.back->bytes.size() - before, 4U + 22U) << "more than the text's record";
}

TEST(TlsPeer, GetsTheSuiteThatTheSlowerEndWants) {
  const std::string chacha = "TLS_CHACHA20_POLY1305_SHA256", aes = "TLS_AES_128_GCM_SHA256";
  for (const std::string& offered : {chacha, aes, chacha + ":" + aes}) {
    SSL_CTX* const context = context_with_key();
    ASSERT_EQ(SSL_CTX_set_ciphersuites(context, offered.c_str()), 1);
    PeerDials all(context);
    ASSERT_TRUE(all.shake().ok());
    EXPECT_EQ(SSL_get_cipher_name(all.peer.ssl()), offered.substr(0, offered.find(':')));
  }
}

// The second key's message is one of a few bytes in a record of its own.
TEST(TlsPeer, HearsOfANewKeyAfterAsManyRecordsAsWereSaid) {
  const Who who = {.records_per_key = 3};
  Stream stream(nullptr, who, who);
  ASSERT_TRUE(shake(stream).dialer.ok());
  std::vector<size_t> sizes;
  for (int i = 0; i < 8; ++i) {
    const size_t before = stream.there->bytes.size();
    ASSERT_EQ(send_text(*stream.dialer, "text").value(), 4U);
    sizes.push_back(stream.there->bytes.size() - before);
  }
  EXPECT_THAT(sizes, testing::ElementsAre(26, 26, 26, 26 + 27, 26, 26, 26 + 27, 26));
  EXPECT_EQ(receive_all(*stream.acceptor), "texttexttexttexttexttexttexttext");
}

TEST(TlsPeer, MayAskForNewKeysAndNothingPilesUp) {
  PeerDials all(context_with_key());
  ASSERT_TRUE(all.shake().ok());
  stream::Pipe& ours = *all.stream.acceptor;
  const auto ask = [&] {
    ASSERT_EQ(SSL_key_update(all.peer.ssl(), SSL_KEY_UPDATE_REQUESTED), 1);
    all.peer.move();
    ASSERT_EQ(receive_all(ours), "");
  };
  for (int i = 0; i < 300; ++i) {
    ask();
    ASSERT_FALSE(ours.holds_output());
  }
  // One that reads none of the answers is not heard any more, and nothing is lost.
  all.stream.back->room = 0;
  for (int i = 0; i < 12'000; ++i) ask();
  EXPECT_TRUE(ours.holds_output());
  EXPECT_FALSE(ours.holds_input());
  EXPECT_LT(all.stream.there->read, all.stream.there->bytes.size());
  ASSERT_EQ(SSL_write(all.peer.ssl(), "hello", 5), 5);
  all.stream.back->room = size_t{8} << 20;
  std::string came;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(ours.send({}).ok());
    came += receive_all(ours);
    all.peer.move();
  }
  EXPECT_EQ(came, "hello");
  ASSERT_EQ(send_text(ours, "under a new key").value(), 15U);
  all.peer.move();
  EXPECT_EQ(all.peer.received, "under a new key");
}

// Whatever the wire does then.
TEST(TlsPeer, SaysFarewellAndThatIsAnEnd) {
  PeerDials all(context_with_key());
  ASSERT_TRUE(all.shake().ok());
  ASSERT_EQ(SSL_write(all.peer.ssl(), "hello", 5), 5);
  SSL_shutdown(all.peer.ssl());
  all.peer.move();
  EXPECT_FALSE(all.stream.acceptor->ended());
  EXPECT_EQ(receive_all(*all.stream.acceptor), "hello");
  EXPECT_TRUE(all.stream.acceptor->ended());
  EXPECT_FALSE(all.stream.acceptor->holds_input());
}

}  // namespace
}  // namespace sk::tls
