// A peer that is OpenSSL with manners of its own.
#ifndef SK_TESTS_UNIT_TRANSPORT_TLS_PEER_H_
#define SK_TESTS_UNIT_TRANSPORT_TLS_PEER_H_

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "tests/unit/transport/tls/wires.h"

namespace sk::tls::testing_support {

// OpenSSL's defaults, and the key of Who{}.
SSL_CTX* context_with_key();

class Peer {
 public:
  // Takes the context.
  Peer(std::shared_ptr<Lane> out, std::shared_ptr<Lane> in, SSL_CTX* context, bool dials);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  SSL* ssl() { return ssl_; }
  // What has come goes in, what it says goes out.
  void move();

  std::string received;

 private:
  const std::shared_ptr<Lane> out_, in_;
  SSL_CTX* const context_;
  SSL* const ssl_;
};

// One at the dialing end of a stream whose accepting end is ours.
struct PeerDials {
  explicit PeerDials(SSL_CTX* context);
  // Until both are done, or ours says why not.
  Status shake();

  Stream stream;
  Peer peer;
};

}  // namespace sk::tls::testing_support

#endif  // SK_TESTS_UNIT_TRANSPORT_TLS_PEER_H_
