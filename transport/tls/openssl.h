// What of OpenSSL's own things all streams share, and how each is made to use our buffers and key.
#ifndef SK_TRANSPORT_TLS_OPENSSL_H_
#define SK_TRANSPORT_TLS_OPENSSL_H_

#include <openssl/ssl.h>

#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include "lib/base/status.h"
#include "transport/tls/tls.h"
#include "transport/tls/wire.h"

namespace sk::tls {

struct Free {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};
using Connection = std::unique_ptr<SSL, Free>;

// What the callbacks of a handshake need and find out.
struct Credentials {
  std::array<std::byte, kKeyBytes> key;
  std::string identity;
  bool other_identity = false;  // The other end named a key that is not this one.

  ~Credentials() { forget(); }
  void forget();  // Once the handshake is done.
};

// A connection that reads and writes `wire`; both must stay where they are.
Result<Connection> make_connection(Side side, Wire& wire, Credentials& credentials);

// Empties this thread's queue of errors: what others left there would be taken for a call's reason.
void drop_errors();

// Why a call of OpenSSL failed, from this thread's queue of errors, which is empty behind it.
Status take_error(bool in_handshake, const Credentials& credentials);

}  // namespace sk::tls

#endif  // SK_TRANSPORT_TLS_OPENSSL_H_
