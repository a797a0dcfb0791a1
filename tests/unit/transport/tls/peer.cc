#include "tests/unit/transport/tls/peer.h"

#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/err.h>

#include <utility>
#include <vector>

namespace sk::tls::testing_support {
namespace {

int give_key(SSL* ssl, const EVP_MD*, const unsigned char** identity, size_t* size,
             SSL_SESSION** session) {
  static const unsigned char kSuite[] = {0x13, 0x01};
  static const std::string kName = Who().identity;
  const std::vector<std::byte> key = key_of(Who().key);
  *session = SSL_SESSION_new();
  SSL_SESSION_set1_master_key(*session, reinterpret_cast<const unsigned char*>(key.data()),
                              key.size());
  SSL_SESSION_set_cipher(*session, SSL_CIPHER_find(ssl, kSuite));
  SSL_SESSION_set_protocol_version(*session, TLS1_3_VERSION);
  *identity = reinterpret_cast<const unsigned char*>(kName.data());
  *size = kName.size();
  return 1;
}

}  // namespace

SSL_CTX* context_with_key() {
  SSL_CTX* const context = SSL_CTX_new(TLS_method());
  SSL_CTX_set_psk_use_session_callback(context, give_key);
  return context;
}

Peer::Peer(std::shared_ptr<Lane> out, std::shared_ptr<Lane> in, SSL_CTX* context, bool dials)
    : out_(std::move(out)), in_(std::move(in)), context_(context), ssl_(SSL_new(context)) {
  SSL_set_bio(ssl_, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  dials ? SSL_set_connect_state(ssl_) : SSL_set_accept_state(ssl_);
}

Peer::~Peer() {
  SSL_free(ssl_);
  SSL_CTX_free(context_);
  ERR_clear_error();
}

void Peer::move() {
  const std::string came = in_->bytes.substr(in_->read);
  in_->read = in_->bytes.size();
  if (!came.empty()) BIO_write(SSL_get_rbio(ssl_), came.data(), int(came.size()));
  if (SSL_do_handshake(ssl_) == 1) {
    char room[20'000];
    for (int got; (got = SSL_read(ssl_, room, sizeof(room))) > 0;)
      received.append(room, size_t(got));
  }
  ERR_clear_error();
  char room[4'000];
  for (int got; (got = BIO_read(SSL_get_wbio(ssl_), room, sizeof(room))) > 0;)
    out_->bytes.append(room, size_t(got));
}

PeerDials::PeerDials(SSL_CTX* context) : peer(stream.there, stream.back, context, true) {
  stream.dialer.reset();  // The peer is in its place.
  stream.there->closed = false;
}

Status PeerDials::shake() {
  Status status;
  for (int i = 0; i < 10 && status.ok(); ++i) {
    peer.move();
    EXPECT_EQ(receive_all(*stream.acceptor, &status), "");
  }
  return status;
}

}  // namespace sk::tls::testing_support
