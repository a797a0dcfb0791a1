#include "transport/tls/openssl.h"

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>

#include <mutex>
#include <string_view>
#include <utility>

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace sk::tls {
namespace {

constexpr int kAlertReason = SSL_AD_REASON_OFFSET;  // Reasons from here on are the peer's alerts.
constexpr int kAlertReasonEnd = kAlertReason + 256;

int write_bio(BIO* bio, const char* data, size_t bytes, size_t* written) {
  auto* const wire = static_cast<Wire*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  if (wire->out.append({reinterpret_cast<const std::byte*>(data), bytes})) {
    *written = bytes;
    return 1;
  }
  BIO_set_retry_write(bio);
  return 0;
}

int read_bio(BIO* bio, char* data, size_t bytes, size_t* got) {
  auto* const wire = static_cast<Wire*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  *got = wire->in.take({reinterpret_cast<std::byte*>(data), bytes});
  if (*got > 0) return 1;
  BIO_set_retry_read(bio);
  return 0;
}

// Flushing is done by whoever owns the wire. Nothing else is known here; an end least of all.
long control_bio(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

BIO_METHOD* make_bio_method() {
  BIO_METHOD* const method =
      BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "SuperKernel stream");
  if (method == nullptr) return nullptr;
  BIO_meth_set_write_ex(method, write_bio);
  BIO_meth_set_read_ex(method, read_bio);
  BIO_meth_set_ctrl(method, control_bio);
  return method;
}

Credentials& credentials_of(SSL* ssl) { return *static_cast<Credentials*>(SSL_get_app_data(ssl)); }

// The key as a session that could be resumed, which is what TLS 1.3 makes of it. Its suite tells
// the hash; the one that is used may be another with the same.
SSL_SESSION* make_session(SSL* ssl) {
  static constexpr unsigned char kAes128GcmSha256[] = {0x13, 0x01};
  const Credentials& credentials = credentials_of(ssl);
  SSL_SESSION* const session = SSL_SESSION_new();
  if (session != nullptr &&
      SSL_SESSION_set1_master_key(session,
                                  reinterpret_cast<const unsigned char*>(credentials.key.data()),
                                  credentials.key.size()) == 1 &&
      SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, kAes128GcmSha256)) == 1 &&
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1) {
    return session;
  }
  SSL_SESSION_free(session);
  return nullptr;
}

int offer_key(SSL* ssl, const EVP_MD* digest, const unsigned char** identity, size_t* bytes,
              SSL_SESSION** session) {
  *session = nullptr;
  // Once the other end has chosen a suite: one with another hash cannot use the key.
  if (digest != nullptr && EVP_MD_is_a(digest, "SHA256") == 0) return 0;
  *session = make_session(ssl);
  if (*session == nullptr) return 0;
  const std::string& ours = credentials_of(ssl).identity;
  *identity = reinterpret_cast<const unsigned char*>(ours.data());
  *bytes = ours.size();
  return 1;
}

// No session: the handshake goes on without the key, and fails for there is nothing else.
int find_key(SSL* ssl, const unsigned char* identity, size_t bytes, SSL_SESSION** session) {
  *session = nullptr;
  Credentials& credentials = credentials_of(ssl);
  if (std::string_view(reinterpret_cast<const char*>(identity), bytes) != credentials.identity) {
    credentials.other_identity = true;
    return 1;
  }
  *session = make_session(ssl);
  return *session != nullptr ? 1 : 0;
}

bool has_aes() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
#elif defined(__aarch64__)
  return (getauxval(AT_HWCAP) & (HWCAP_AES | HWCAP_PMULL)) == (HWCAP_AES | HWCAP_PMULL);
#else
  return false;
#endif
}

bool configure(SSL_CTX* context) {
  // Without AES in the processor ChaCha20 is the faster one. The end that accepts chooses, by its
  // own order, but takes ChaCha20 where the other end prefers that: the slower of both decides.
  const char* const suites = has_aes() ? "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"
                                       : "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256";
  SSL_CTX_set_options(context, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA |
                                   SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
  // Keys without a fresh exchange are off by default; a system's configuration may say otherwise.
  SSL_CTX_clear_options(context, SSL_OP_ALLOW_NO_DHE_KEX | SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
  // A call that reads ends behind each record, so that what it writes is bounded.
  SSL_CTX_clear_mode(context, SSL_MODE_AUTO_RETRY);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_psk_use_session_callback(context, offer_key);
  SSL_CTX_set_psk_find_session_callback(context, find_key);
  return SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_ciphersuites(context, suites) == 1 &&
         SSL_CTX_set1_groups_list(context, "X25519:P-256") == 1 &&
         SSL_CTX_set_num_tickets(context, 0) == 1 && SSL_CTX_set_max_early_data(context, 0) == 1 &&
         SSL_CTX_set_recv_max_early_data(context, 0) == 1;
}

std::string reason_text(unsigned long code) {
  const char* const text = ERR_reason_error_string(code);
  return text != nullptr ? text : fmt::format("error {:#x}", code);
}

Status openssl_error(const char* what) {
  const unsigned long code = ERR_peek_error();
  ERR_clear_error();
  return error(SK_ERR_NO_MEMORY, "OpenSSL {}: {}", what,
               code != 0 ? reason_text(code) : "no reason was given");
}

// Never freed: streams of threads that outlive static destruction use them.
struct Shared {
  SSL_CTX* context = nullptr;
  BIO_METHOD* bio = nullptr;
};

Result<Shared> shared() {
  static std::mutex mutex;
  static Shared made;
  const std::lock_guard lock(mutex);
  // What OpenSSL would free at a program's end may be in use by a thread that drives.
  if (made.bio == nullptr) OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, nullptr);
  if (made.bio == nullptr) made.bio = make_bio_method();
  if (made.bio != nullptr && made.context == nullptr) {
    SSL_CTX* const context = SSL_CTX_new(TLS_method());
    if (context != nullptr && configure(context)) {
      made.context = context;
    } else {
      SSL_CTX_free(context);
    }
  }
  if (made.context == nullptr) return openssl_error("cannot be set up for TLS 1.3");
  ERR_clear_error();
  return made;
}

Status alert_error(int alert, bool in_handshake) {
  const char* const text = SSL_alert_desc_string_long(alert);
  if (alert == SSL_AD_BAD_RECORD_MAC) {
    return error(SK_ERR_TRANSPORT,
                 "TLS: the other end received bytes that were changed on the way (its alert: {})",
                 text);
  }
  if (in_handshake) {
    return error(SK_ERR_TRUST,
                 "TLS: the other end does not accept this one's key or its name (its alert: {})",
                 text);
  }
  return error(SK_ERR_TRANSPORT, "TLS: the other end gave the stream up (its alert: {})", text);
}

}  // namespace

// Clearing an empty queue costs as much as a small record's encryption.
void drop_errors() {
  if (ERR_peek_error() != 0) ERR_clear_error();
}

void Credentials::forget() { OPENSSL_cleanse(key.data(), key.size()); }

Result<Connection> make_connection(Side side, Wire& wire, Credentials& credentials) {
  SK_ASSIGN_OR_RETURN(const Shared ours, shared());
  ERR_clear_error();
  Connection connection(SSL_new(ours.context));
  BIO* const bio = connection ? BIO_new(ours.bio) : nullptr;
  if (bio == nullptr) return openssl_error("cannot make a connection");
  BIO_set_data(bio, &wire);
  BIO_set_init(bio, 1);
  SSL_set_bio(connection.get(), bio, bio);  // Owned by it from here on.
  SSL_set_app_data(connection.get(), &credentials);
  if (side == Side::kDials) {
    SSL_set_connect_state(connection.get());
    // There are no authorities: any certificate in the key's stead is refused.
    SSL_set_verify(connection.get(), SSL_VERIFY_PEER, nullptr);
  } else {
    SSL_set_accept_state(connection.get());
  }
  return connection;
}

Status take_error(bool in_handshake, const Credentials& credentials) {
  const unsigned long code = ERR_peek_error();
  ERR_clear_error();
  const int reason = code != 0 ? ERR_GET_REASON(code) : 0;
  if (reason == ERR_R_MALLOC_FAILURE) return Status::no_memory();
  if (ERR_GET_LIB(code) != ERR_LIB_SSL) {
    return error(in_handshake ? SK_ERR_TRUST : SK_ERR_TRANSPORT, "TLS: OpenSSL: {}",
                 code != 0 ? reason_text(code) : "no reason was given");
  }
  if (reason >= kAlertReason && reason < kAlertReasonEnd) {
    return alert_error(reason - kAlertReason, in_handshake);
  }
  if (reason == SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC) {
    return error(SK_ERR_TRANSPORT, "TLS: bytes were changed on the way (bad record MAC)");
  }
  if (!in_handshake) {
    return error(SK_ERR_TRANSPORT, "TLS: what came is no record of this stream ({})",
                 reason_text(code));
  }
  if (reason == SSL_R_BINDER_DOES_NOT_VERIFY) {
    return error(SK_ERR_TRUST, "TLS: the other end does not hold the key named \"{}\"",
                 credentials.identity);
  }
  if (credentials.other_identity) {
    return error(SK_ERR_TRUST, "TLS: the other end names another key than \"{}\"",
                 credentials.identity);
  }
  if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST) {
    return error(SK_ERR_TRUST, "TLS: the other end does not speak TLS ({})", reason_text(code));
  }
  return error(SK_ERR_TRUST, "TLS: the handshake for the key named \"{}\" failed ({})",
               credentials.identity, reason_text(code));
}

}  // namespace sk::tls
