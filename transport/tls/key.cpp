#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <string>

#include "transport/tls/tls.h"

namespace sk::tls {
namespace {

constexpr char kSalt[] = "SuperKernel stream keys 1";

struct Free {
  void operator()(EVP_KDF* kdf) const { EVP_KDF_free(kdf); }
  void operator()(EVP_KDF_CTX* context) const { EVP_KDF_CTX_free(context); }
};

// Parameters of OpenSSL are not const, though it only reads these.
template <typename T>
OSSL_PARAM octets(const char* name, const T* data, size_t bytes) {
  return OSSL_PARAM_construct_octet_string(name, const_cast<T*>(data), bytes);
}

}  // namespace

Result<std::array<std::byte, kKeyBytes>> derive_key(std::span<const std::byte> secret,
                                                    std::string_view label,
                                                    std::span<const std::byte> context) {
  if (secret.empty()) {
    return error(SK_ERR_INVALID_ARGUMENT, "secret has 0 bytes: no key can be derived from it");
  }
  // The label's length ahead of it, in 8 bytes, little-endian: what is label and what is context
  // cannot be mistaken.
  std::string info;
  for (int i = 0; i < 8; ++i) info += static_cast<char>(uint64_t{label.size()} >> (8 * i));
  info += label;
  info.append(reinterpret_cast<const char*>(context.data()), context.size());

  char digest[] = "SHA256";
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      octets(OSSL_KDF_PARAM_SALT, kSalt, sizeof(kSalt) - 1),
      octets(OSSL_KDF_PARAM_KEY, secret.data(), secret.size()),
      octets(OSSL_KDF_PARAM_INFO, info.data(), info.size()), OSSL_PARAM_construct_end()};
  const std::unique_ptr<EVP_KDF, Free> kdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr));
  const std::unique_ptr<EVP_KDF_CTX, Free> run(kdf ? EVP_KDF_CTX_new(kdf.get()) : nullptr);
  std::array<std::byte, kKeyBytes> key;
  const bool done = run && EVP_KDF_derive(run.get(), reinterpret_cast<unsigned char*>(key.data()),
                                          key.size(), parameters) == 1;
  ERR_clear_error();
  if (!done) return error(SK_ERR_NO_MEMORY, "OpenSSL could not derive a key (HKDF with SHA-256)");
  return key;
}

}  // namespace sk::tls
