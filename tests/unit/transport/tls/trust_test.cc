// Who does not hold the key gets no byte in and none out, and is told apart from a broken wire.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/unit/transport/tls/peer.h"
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

// What a stranger may make us keep and look through is bounded.
TEST(TlsTrust, AHelloWithoutEndIsRefused) {
  Stream stream;
  std::string record = {22, 3, 3, 0x40, 0};
  record += {1, 1, char(0xff), char(0xff)};  // A hello of 128 KiB.
  record.resize(5 + 0x4000, '\3');
  for (int i = 0; i < 100; ++i)
    stream.there->bytes += i == 0 ? record : record.substr(0, 5) + std::string(0x4000, '\3');
  const Status status = stream.acceptor->send({}).status().clone();
  EXPECT_EQ(status.code(), SK_ERR_TRUST);
  EXPECT_THAT(status.message(), HasSubstr("16384 are plenty"));
  EXPECT_LE(stream.there->read, 256U << 10);
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
      if (!sent.ok()) status = std::move(sent.status());
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

TEST(TlsTrust, OlderTlsAndOtherSuitesAndNoKeyAreRefused) {
  SSL_CTX* const older = context_with_key();
  SSL_CTX_set_max_proto_version(older, TLS1_2_VERSION);
  SSL_CTX* const other_hash = context_with_key();
  SSL_CTX_set_ciphersuites(other_hash, "TLS_AES_256_GCM_SHA384");
  SSL_CTX* const keyless = SSL_CTX_new(TLS_method());
  for (const auto& [context, reason] :
       {std::pair(older, "unsupported protocol"), std::pair(other_hash, "no shared cipher"),
        std::pair(keyless, "no suitable signature algorithm")}) {
    const Status status = PeerDials(context).shake();
    EXPECT_EQ(status.code(), SK_ERR_TRUST) << status.message();
    EXPECT_THAT(status.message(), HasSubstr("the handshake for the key named"));
    EXPECT_THAT(status.message(), HasSubstr(reason));
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

}  // namespace
}  // namespace sk::tls
