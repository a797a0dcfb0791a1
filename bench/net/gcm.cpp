#include "bench/net/gcm.h"

#include <openssl/evp.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "bench/e2e/place.h"

namespace sk_bench {
namespace {

constexpr int kTagBytes = 16;
constexpr size_t kMib = size_t{1} << 20;

void must(int did) {
  if (did > 0) return;
  fprintf(stderr, "bench: OpenSSL refuses AES-128-GCM\n");
  exit(3);
}

}  // namespace

struct Gcm::State {
  bool seals = false;
  EVP_CIPHER_CTX* context = EVP_CIPHER_CTX_new();
  std::array<unsigned char, 16> key = {1, 2, 3};
  std::array<unsigned char, 12> nonce = {};
  std::array<unsigned char, 5> header = {0x17, 3, 3, 0x40, 0x11};
  std::array<unsigned char, kTagBytes> tag = {};
  std::vector<unsigned char> plain, sealed;

  // From `plain` into `sealed`.
  void seal() {
    int size = 0;
    must(EVP_EncryptInit_ex(context, nullptr, nullptr, nullptr, nonce.data()));
    must(EVP_EncryptUpdate(context, nullptr, &size, header.data(), int(header.size())));
    must(EVP_EncryptUpdate(context, sealed.data(), &size, plain.data(), int(plain.size())));
    must(EVP_EncryptFinal_ex(context, sealed.data() + size, &size));
    must(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, kTagBytes, tag.data()));
  }

  // And back.
  void open() {
    int size = 0;
    must(EVP_DecryptInit_ex(context, nullptr, nullptr, nullptr, nonce.data()));
    must(EVP_DecryptUpdate(context, nullptr, &size, header.data(), int(header.size())));
    must(EVP_DecryptUpdate(context, plain.data(), &size, sealed.data(), int(sealed.size())));
    must(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_TAG, kTagBytes, tag.data()));
    must(EVP_DecryptFinal_ex(context, plain.data() + size, &size));
  }
};

Gcm::Gcm(bool seals) : state_(new State()) {
  state_->plain.assign(kGcmRecordBytes, 7);
  state_->sealed.assign(kGcmRecordBytes, 0);
  must(EVP_EncryptInit_ex(state_->context, EVP_aes_128_gcm(), nullptr, state_->key.data(),
                          state_->nonce.data()));
  state_->seal();  // Something that opens.
  if (!seals) {
    must(EVP_DecryptInit_ex(state_->context, EVP_aes_128_gcm(), nullptr, state_->key.data(),
                            state_->nonce.data()));
  }
  state_->seals = seals;
}

Gcm::~Gcm() {
  EVP_CIPHER_CTX_free(state_->context);
  delete state_;
}

double Gcm::us_per_mib(int mib) {
  const size_t records = size_t(mib) * kMib / kGcmRecordBytes;
  const double start = bench_now();
  for (size_t i = 0; i < records; ++i) {
    if (state_->seals) {
      memcpy(state_->nonce.data(), &i, sizeof(i));
      state_->seal();
    } else {
      state_->open();
    }
  }
  return (bench_now() - start) * 1e6 / mib;
}

}  // namespace sk_bench
