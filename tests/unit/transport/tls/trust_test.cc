// Who does not hold the key gets no byte in and none out, and is told apart from a broken wire.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/unit/transport/tls/wires.h"

namespace sk::tls {
namespace {

using namespace sk::tls::testing_support;
using testing::HasSubstr;

TEST(TlsTrust, AnotherKeyIsRefusedByBoth) {
  Stream stream(nullptr, {.key = 'k'}, {.key = 'x'});
  const Ends ends = shake(stream);
  EXPECT_EQ(ends.acceptor.code(), SK_ERR_TRUST);
  EXPECT_THAT(ends.acceptor.message(), HasSubstr("does not hold the key named \"sk/job/0-1\""));
  EXPECT_EQ(ends.dialer.code(), SK_ERR_TRUST);
  EXPECT_THAT(ends.dialer.message(), HasSubstr("does not accept this one's key or its name"));
  // Told to each later caller too.
  std::byte room[8];
  EXPECT_EQ(stream.acceptor->receive(room).status().message(), ends.acceptor.message());
  EXPECT_EQ(send_text(*stream.dialer, "text").status().message(), ends.dialer.message());
}

TEST(TlsTrust, AnotherNameIsRefusedByBoth) {
  for (const std::string name : {"sk/job/0-2", "sk/job/0-", "sk/job/0-11", "x"}) {
    Stream stream(nullptr, {.identity = name}, {});
    const Ends ends = shake(stream);
    EXPECT_EQ(ends.acceptor.code(), SK_ERR_TRUST) << ends.acceptor.message();
    EXPECT_THAT(ends.acceptor.message(), HasSubstr("names another key than \"sk/job/0-1\""));
    EXPECT_EQ(ends.dialer.code(), SK_ERR_TRUST) << ends.dialer.message();
  }
}

TEST(TlsTrust, TwoEndsThatDialAreNoStream) {
  Stream first, second;
  // Each dialing end meets the other's words.
  ASSERT_TRUE(second.dialer->send({}).ok());
  first.back->bytes = second.there->bytes;
  const Status status = first.dialer->send({}).status().clone();
  EXPECT_EQ(status.code(), SK_ERR_TRUST) << status.message();
}

TEST(TlsTrust, PlainWordsAreNoTls) {
  const std::string words[] = {"GET / HTTP/1.1\r\n\r\n", std::string(32, '\0'),
                               "SSH-2.0-OpenSSH_9.2\r\n", std::string(500, '\xff'),
                               std::string("\x01\0\0\0\x20\0\0\0", 8)};
  for (const std::string& text : words) {
    for (const bool dials : {false, true}) {
      Stream stream;
      Lane& lane = dials ? *stream.back : *stream.there;
      lane.bytes = text;
      stream::Pipe& pipe = dials ? *stream.dialer : *stream.acceptor;
      std::byte room[64];
      const Status status = pipe.receive(room).status().clone();
      EXPECT_EQ(status.code(), SK_ERR_TRUST) << text << ": " << status.message();
      EXPECT_THAT(status.message(), HasSubstr("does not speak TLS")) << text;
      EXPECT_EQ(ERR_peek_error(), 0U);
    }
  }
}

TEST(TlsTrust, GarbageGetsNothingInOrOut) {
  std::mt19937 random(11);
  for (int round = 0; round < 3'000; ++round) {
    Stream stream(round % 2 == 0 ? nullptr : &random);
    const bool dials = random() % 2 == 0;
    Lane& lane = dials ? *stream.back : *stream.there;
    // Half of it looks like a record that holds a handshake's words.
    const size_t size = 1 + random() % 300;
    if (random() % 2 == 0) {
      lane.bytes = {22, 3, char(random() % 5),  0, char(random() % 200), char(1 + random() % 2),
                    0,  0, char(random() % 200)};
    }
    while (lane.bytes.size() < size) lane.bytes += char(random());
    lane.closed = true;
    stream::Pipe& pipe = dials ? *stream.dialer : *stream.acceptor;
    Status status;
    for (int i = 0; i < 2'000 && status.ok(); ++i) {
      EXPECT_EQ(receive_all(pipe, &status), "");
      if (!status.ok()) break;
      Result<size_t> sent = send_text(pipe, "plain");
      if (!sent.ok()) {
        status = std::move(sent.status());
      } else {
        EXPECT_EQ(*sent, 0U);
      }
    }
    EXPECT_THAT(status.code(), testing::AnyOf(SK_ERR_TRUST, SK_ERR_TRANSPORT, SK_ERR_PEER_LOST));
    EXPECT_EQ((dials ? stream.there : stream.back)->bytes.find("plain"), std::string::npos);
  }
}

// Whoever repeats what was overheard cannot answer the fresh numbers.
TEST(TlsTrust, RepeatedWordsOpenNothing) {
  Stream heard;
  ASSERT_TRUE(shake(heard).dialer.ok());
  ASSERT_EQ(send_text(*heard.dialer, "an order").value(), 8U);
  Stream again;
  again.there->bytes = heard.there->bytes;
  Status status;
  EXPECT_EQ(receive_all(*again.acceptor, &status), "");
  EXPECT_EQ(status.code(), SK_ERR_TRANSPORT) << status.message();
}

// A peer that is OpenSSL with other manners.
class Peer {
 public:
  Peer(std::shared_ptr<Lane> out, std::shared_ptr<Lane> in, SSL_CTX* context, bool dials)
      : out_(std::move(out)), in_(std::move(in)), context_(context), ssl_(SSL_new(context)) {
    SSL_set_bio(ssl_, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    dials ? SSL_set_connect_state(ssl_) : SSL_set_accept_state(ssl_);
  }
  ~Peer() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
    ERR_clear_error();
  }
  SSL* ssl() { return ssl_; }

  // What has come goes in, what it says goes out.
  void move() {
    const std::string came = in_->bytes.substr(in_->read);
    in_->read = in_->bytes.size();
    if (!came.empty()) BIO_write(SSL_get_rbio(ssl_), came.data(), int(came.size()));
    if (SSL_do_handshake(ssl_) == 1) {
      char room[100];
      const int got = SSL_read(ssl_, room, sizeof(room));
      if (got > 0) received.append(room, size_t(got));
    }
    ERR_clear_error();
    char room[4'000];
    for (int got; (got = BIO_read(SSL_get_wbio(ssl_), room, sizeof(room))) > 0;)
      out_->bytes.append(room, size_t(got));
  }

  std::string received;

 private:
  const std::shared_ptr<Lane> out_, in_;
  SSL_CTX* const context_;
  SSL* const ssl_;
};

int give_key(SSL* ssl, const EVP_MD*, const unsigned char** identity, size_t* size,
             SSL_SESSION** session) {
  static const unsigned char kSuite[] = {0x13, 0x01};
  static const std::string kName = Who().identity;
  const std::vector<std::byte> key = key_of('k');
  *session = SSL_SESSION_new();
  SSL_SESSION_set1_master_key(*session, reinterpret_cast<const unsigned char*>(key.data()),
                              key.size());
  SSL_SESSION_set_cipher(*session, SSL_CIPHER_find(ssl, kSuite));
  SSL_SESSION_set_protocol_version(*session, TLS1_3_VERSION);
  *identity = reinterpret_cast<const unsigned char*>(kName.data());
  *size = kName.size();
  return 1;
}

SSL_CTX* context_with_key() {
  SSL_CTX* const context = SSL_CTX_new(TLS_method());
  SSL_CTX_set_psk_use_session_callback(context, give_key);
  return context;
}

// What our accepting end makes of such a peer.
Status met_by(SSL_CTX* context) {
  Stream stream;
  stream.dialer.reset();
  stream.there->closed = false;
  Peer peer(stream.there, stream.back, context, true);
  Status status;
  for (int i = 0; i < 10 && status.ok(); ++i) {
    peer.move();
    EXPECT_EQ(receive_all(*stream.acceptor, &status), "");
  }
  return status;
}

TEST(TlsTrust, OlderTlsAndOtherSuitesAndNoKeyAreRefused) {
  SSL_CTX* const older = context_with_key();
  SSL_CTX_set_max_proto_version(older, TLS1_2_VERSION);
  SSL_CTX* const other_hash = context_with_key();
  SSL_CTX_set_ciphersuites(other_hash, "TLS_AES_256_GCM_SHA384");
  for (SSL_CTX* context : {older, other_hash, SSL_CTX_new(TLS_method())}) {
    const Status status = met_by(context);
    EXPECT_EQ(status.code(), SK_ERR_TRUST) << status.message();
    EXPECT_THAT(status.message(), HasSubstr("the handshake for the key named"));
  }
}

TEST(TlsTrust, ACertificateIsNoKey) {
  SSL_CTX* const context = SSL_CTX_new(TLS_method());
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const certificate = X509_new();
  X509_set_version(certificate, 2);
  X509_set_pubkey(certificate, key);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -1'000);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 100'000);
  X509_sign(certificate, key, EVP_sha256());
  SSL_CTX_use_certificate(context, certificate);
  SSL_CTX_use_PrivateKey(context, key);
  X509_free(certificate);
  EVP_PKEY_free(key);

  Stream stream;
  stream.acceptor.reset();
  stream.back->closed = false;
  Peer peer(stream.back, stream.there, context, false);
  Status status;
  for (int i = 0; i < 10 && status.ok(); ++i) {
    if (status.ok()) {
      EXPECT_EQ(receive_all(*stream.dialer, &status), "");
    }
    peer.move();
  }
  EXPECT_EQ(status.code(), SK_ERR_TRUST) << status.message();
  EXPECT_THAT(status.message(), HasSubstr("certificate verify failed"));
}

// The same peer is let in where its manners are good, so that the above refuses what it names.
TEST(TlsTrust, APeerWithTheKeyIsLetInWhateverProgramItIs) {
  Stream stream;
  stream.dialer.reset();
  stream.there->closed = false;
  Peer peer(stream.there, stream.back, context_with_key(), true);
  for (int i = 0; i < 5; ++i) {
    peer.move();
    EXPECT_EQ(receive_all(*stream.acceptor), "");
  }
  ASSERT_EQ(SSL_write(peer.ssl(), "hello", 5), 5);
  peer.move();
  EXPECT_EQ(receive_all(*stream.acceptor), "hello");
  ASSERT_EQ(send_text(*stream.acceptor, "good day").value(), 8U);
  peer.move();
  EXPECT_EQ(peer.received, "good day");
  EXPECT_STREQ(SSL_get_version(peer.ssl()), "TLSv1.3");
  EXPECT_EQ(SSL_session_reused(peer.ssl()), 1);
  EXPECT_NE(SSL_get_negotiated_group(peer.ssl()), 0);  // A fresh exchange took place.

  // It may ask for new keys as often as it likes; none of that is output that piles up here.
  for (int i = 0; i < 300; ++i) {
    ASSERT_EQ(SSL_key_update(peer.ssl(), SSL_KEY_UPDATE_REQUESTED), 1);
    peer.move();
    ASSERT_EQ(receive_all(*stream.acceptor), "");
    ASSERT_FALSE(stream.acceptor->holds_output());
  }
  // Even where it reads none of the answers.
  stream.back->room = 0;
  for (int i = 0; i < 20'000; ++i) {
    ASSERT_EQ(SSL_key_update(peer.ssl(), SSL_KEY_UPDATE_REQUESTED), 1);
    peer.move();
    ASSERT_EQ(receive_all(*stream.acceptor), "");
  }
  EXPECT_TRUE(stream.acceptor->holds_output());
  EXPECT_FALSE(stream.acceptor->holds_input());
  stream.back->room = size_t{1} << 20;
  ASSERT_EQ(stream.acceptor->send({}).value(), 0U);
  for (int i = 0; i < 30; ++i) {
    ASSERT_EQ(receive_all(*stream.acceptor), "");
    peer.move();
  }
  ASSERT_EQ(send_text(*stream.acceptor, "under a new key").value(), 15U);
  peer.move();
  EXPECT_EQ(peer.received, "good dayunder a new key");

  // Its farewell is an end, whatever the wire does.
  EXPECT_FALSE(stream.acceptor->ended());
  SSL_shutdown(peer.ssl());
  peer.move();
  EXPECT_EQ(receive_all(*stream.acceptor), "");
  EXPECT_TRUE(stream.acceptor->ended());
  EXPECT_FALSE(stream.acceptor->holds_input());
}

}  // namespace
}  // namespace sk::tls
