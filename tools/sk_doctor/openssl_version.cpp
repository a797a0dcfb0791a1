// In a file of its own: OpenSSL's headers and sk.h both have an sk_free().
#include <openssl/crypto.h>

#include "tools/sk_doctor/checks.h"

namespace sk::doctor {

const char* openssl_version() { return OpenSSL_version(OPENSSL_VERSION); }

}  // namespace sk::doctor
