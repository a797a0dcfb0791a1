// Whether this OpenSSL shakes hands as libsk asks it to.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>

#include "lib/base/status.h"
#include "tools/sk_doctor/checks.h"
#include "tools/sk_doctor/child.h"
#include "transport/tls/tls.h"

namespace sk::doctor {
namespace {

constexpr int64_t kHandshakeNs = 10'000'000'000;

// One end of a stream within this process: what keeps hands from being shaken is no network.
class MemoryPipe final : public stream::Pipe {
 public:
  using Bytes = std::shared_ptr<std::string>;
  MemoryPipe(Bytes in, Bytes out) : in_(std::move(in)), out_(std::move(out)) {}

  Result<size_t> send(std::span<const iovec> parts) override {
    size_t taken = 0;
    for (const iovec& part : parts) {
      out_->append(static_cast<const char*>(part.iov_base), part.iov_len);
      taken += part.iov_len;
    }
    return taken;
  }
  Result<size_t> receive(std::span<std::byte> room) override {
    const size_t size = std::min(room.size(), in_->size());
    std::memcpy(room.data(), in_->data(), size);
    in_->erase(0, size);
    return size;
  }
  bool ended() const override { return false; }
  int fd() const override { return -1; }

 private:
  Bytes in_, out_;
};

// Until a byte has crossed.
Status shake_hands() {
  const auto there = std::make_shared<std::string>(), back = std::make_shared<std::string>();
  const std::array<std::byte, tls::kKeyBytes> key{std::byte{7}};
  SK_ASSIGN_OR_RETURN(const auto a, tls::make_tls(std::make_unique<MemoryPipe>(back, there),
                                                  tls::Side::kDials, key, "sk doctor"));
  SK_ASSIGN_OR_RETURN(const auto b, tls::make_tls(std::make_unique<MemoryPipe>(there, back),
                                                  tls::Side::kAccepts, key, "sk doctor"));
  std::byte sent{42}, came{0};
  const iovec part{&sent, 1};
  size_t taken = 0;
  const int64_t until_ns = clock_ns() + kHandshakeNs;
  while (clock_ns() < until_ns) {
    SK_ASSIGN_OR_RETURN(const size_t more, a->send(std::span(&part, taken == 0 ? 1 : 0)));
    taken += more;
    SK_ASSIGN_OR_RETURN(const size_t got, b->receive(std::span(&came, 1)));
    if (got == 1) return came == sent ? Status() : error(SK_ERR_TRANSPORT, "another byte came");
    (void)a->receive({});
    (void)b->send({});
  }
  return error(SK_ERR_TIMEOUT, "no handshake within {} s", kHandshakeNs / 1'000'000'000);
}

}  // namespace

void check_tls(Findings* findings) {
  const std::string version = openssl_version();
  const Status status = shake_hands();
  if (status.ok()) {
    findings->ok("tls", fmt::format("TLS 1.3 under a shared key works: {}", version));
  } else {
    findings->fault(
        "tls", fmt::format("no TLS 1.3 under a shared key with {}: {}", version, status.message()),
        "allow TLS 1.3 in OpenSSL's settings (OPENSSL_CONF), or SK_NET_TLS=0 on all "
        "ranks of a network that nobody else is in");
  }
}

}  // namespace sk::doctor
