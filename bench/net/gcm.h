// What encryption costs by itself: AES-128-GCM of TLS records, by OpenSSL and on this core.
#ifndef SK_BENCH_NET_GCM_H_
#define SK_BENCH_NET_GCM_H_

#include <cstddef>

namespace sk_bench {

inline constexpr size_t kGcmRecordBytes = size_t{16} << 10;

// Microseconds for a MiB in records of 16 KiB, sealed or opened from memory to memory; each record
// has a nonce, 5 bytes that are only authenticated and a tag, as TLS 1.3's have.
class Gcm {
 public:
  explicit Gcm(bool seals);
  ~Gcm();
  Gcm(const Gcm&) = delete;
  Gcm& operator=(const Gcm&) = delete;

  double us_per_mib(int mib);

 private:
  struct State;
  State* const state_;
};

}  // namespace sk_bench

#endif  // SK_BENCH_NET_GCM_H_
