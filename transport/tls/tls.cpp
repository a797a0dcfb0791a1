#include "transport/tls/tls.h"

#include <openssl/ssl.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "transport/tls/openssl.h"
#include "transport/tls/records.h"
#include "transport/tls/wire.h"

namespace sk::tls {
namespace {

// A handshake takes some 300 bytes each way. A stranger's announced length must not be waited for.
constexpr size_t kHandshakeBytesMax = size_t{16} << 10;

class Tls final : public stream::Pipe {
 public:
  Tls(std::unique_ptr<stream::Pipe> below, uint64_t records_per_key)
      : below_(std::move(below)), records_per_key_(records_per_key) {}

  Status begin(Side side, std::span<const std::byte> key, std::string_view identity);

  Result<size_t> send(std::span<const iovec> parts) override;
  Result<size_t> receive(std::span<std::byte> room) override;
  Result<size_t> receive(std::span<std::byte> room, std::span<std::byte> behind) override;
  bool ended() const override;
  bool holds_output() const override { return !wire_.out.empty() || below_->holds_output(); }
  bool holds_input() const override;
  bool delivered() const override {
    return early_.empty() && wire_.out.empty() && below_->delivered();
  }
  Status look_after() override { return below_->look_after(); }
  int fd() const override { return below_->fd(); }

 private:
  // Goes on with the handshake as far as what is there allows, and sends what it says.
  Status shake();
  Status check_handshake();
  size_t take_early(std::span<const iovec> parts);
  // Encrypts one record. There is room for it.
  Status seal(std::span<const std::byte> plain);
  // Decrypts of one record; 0: it held no plain bytes, or is not there yet.
  Result<size_t> open(std::span<std::byte> room);
  // The rest of a record that has been decrypted.
  bool has_plain() const { return SSL_pending(connection_.get()) > 0; }
  // A record may ask for a new key, which OpenSSL says at once. A peer that asks and never reads
  // is not heard any more.
  bool may_answer() const { return wire_.out.room() >= Outgoing::kRoomForAnswer; }
  // Hands ciphertext down, as much as there is room for.
  Status flush();
  // Brings ciphertext up; false: there is none. An end where none may be is an error.
  Result<bool> fill();
  // The stream is broken: tells the other end if that can be done now, and each later caller.
  Status fail(Status why);
  Status fail_by_openssl() { return fail(take_error(!shaken_, credentials_)); }

  const std::unique_ptr<stream::Pipe> below_;
  const uint64_t records_per_key_;
  uint64_t records_ = 0;  // Sent with the present key.
  Wire wire_;
  Credentials credentials_;
  Connection connection_;
  Gathered gathered_;
  std::vector<std::byte> early_;  // Taken before the handshake was done; at most a record.
  size_t came_ = 0;               // Up to the end of the handshake.
  bool shaken_ = false;           // The handshake is done.
  bool farewell_ = false;         // The other end has said that nothing follows.
  Status broken_;
};

Status Tls::begin(Side side, std::span<const std::byte> key, std::string_view identity) {
  std::copy(key.begin(), key.end(), credentials_.key.begin());
  credentials_.identity = identity;
  SK_ASSIGN_OR_RETURN(connection_, make_connection(side, wire_, credentials_));
  if (side == Side::kAccepts) return {};
  // The first words, so that they are held output and whoever drives sends them.
  drop_errors();
  const int did = SSL_do_handshake(connection_.get());
  if (SSL_get_error(connection_.get(), did) == SSL_ERROR_WANT_READ) return {};
  return take_error(true, credentials_);
}

Result<size_t> Tls::send(std::span<const iovec> parts) {
  if (!broken_.ok()) return broken_.clone();
  SK_RETURN_IF_ERROR(shake());
  if (!shaken_) return take_early(parts);
  size_t taken = 0;
  Parts left(parts);
  while (true) {
    if (wire_.out.room() < Outgoing::kRoomForRecord) {
      SK_RETURN_IF_ERROR(flush());
      if (wire_.out.room() < Outgoing::kRoomForRecord) return taken;
    }
    const std::span<const std::byte> plain = left.next(gathered_);
    if (plain.empty()) break;
    SK_RETURN_IF_ERROR(seal(plain));
    taken += plain.size();
  }
  SK_RETURN_IF_ERROR(flush());
  return taken;
}

Result<size_t> Tls::receive(std::span<std::byte> room) {
  if (!broken_.ok()) return broken_.clone();
  SK_RETURN_IF_ERROR(shake());
  const size_t output = wire_.out.size();
  size_t size = 0;
  bool all = false;  // That was below has come up.
  while (shaken_ && !farewell_ && size < room.size() && may_answer()) {
    if (has_plain() || wire_.in.has_record()) {
      const Result<size_t> opened = open(room.subspan(size));
      if (!opened.ok()) break;
      size += opened.value();
      continue;
    }
    // Where something can be given, another call may find out that there is no more.
    if (all && size > 0) break;
    const size_t space = wire_.in.room().size();
    const size_t before = wire_.in.size();
    const Result<bool> more = fill();
    if (!more.ok() || !more.value()) break;
    all = wire_.in.size() - before < space;
  }
  // What came ahead of an error is given first; the next call tells the error.
  if (!broken_.ok() && size == 0) return broken_.clone();
  // A new key that the other end asked for. Should it not go out, send() says why.
  if (wire_.out.size() > output) [[maybe_unused]]
    const Status flushed = flush();
  return size;
}

Result<size_t> Tls::receive(std::span<std::byte> room, std::span<std::byte> behind) {
  SK_ASSIGN_OR_RETURN(const size_t size, receive(room));
  if (size < room.size() || !has_plain()) return size;
  // Of a record that has been opened already: there is no error to be had.
  SK_ASSIGN_OR_RETURN(const size_t more, open(behind));
  return size + more;
}

bool Tls::ended() const {
  if (farewell_) return true;
  return shaken_ && below_->ended() && wire_.in.empty() && !has_plain();
}

bool Tls::holds_input() const {
  if (!broken_.ok()) return true;  // Which whoever drives has to hear.
  return !farewell_ && may_answer() &&
         (has_plain() || wire_.in.has_record() || below_->holds_input());
}

Status Tls::shake() {
  if (shaken_) return {};
  while (true) {
    drop_errors();
    const int did = SSL_do_handshake(connection_.get());
    if (did == 1) {
      SK_RETURN_IF_ERROR(check_handshake());
      if (!early_.empty()) SK_RETURN_IF_ERROR(seal(early_));
      early_ = {};
      break;
    }
    if (SSL_get_error(connection_.get(), did) != SSL_ERROR_WANT_READ) return fail_by_openssl();
    if (came_ > kHandshakeBytesMax) {
      return fail(error(SK_ERR_TRUST, "TLS: {} bytes came and no handshake: {} are plenty for one",
                        came_, kHandshakeBytesMax));
    }
    SK_ASSIGN_OR_RETURN(const bool more, fill());
    if (!more) break;
  }
  return flush();
}

// OpenSSL has refused everything else by now; nothing may go out should it not have.
Status Tls::check_handshake() {
  if (SSL_version(connection_.get()) != TLS1_3_VERSION ||
      SSL_session_reused(connection_.get()) != 1) {
    return fail(error(SK_ERR_TRUST, "TLS: the handshake did without the key named \"{}\"",
                      credentials_.identity));
  }
  credentials_.forget();
  shaken_ = true;
  return {};
}

// First words wait here for the handshake, or whoever has them would wait for room that is there.
size_t Tls::take_early(std::span<const iovec> parts) {
  size_t taken = 0;
  for (const iovec& part : parts) {
    const auto* const bytes = static_cast<const std::byte*>(part.iov_base);
    const size_t size = std::min(part.iov_len, kRecordBytes - early_.size());
    early_.insert(early_.end(), bytes, bytes + size);
    taken += size;
  }
  return taken;
}

Status Tls::seal(std::span<const std::byte> plain) {
  drop_errors();
  if (records_ == records_per_key_) {
    if (SSL_key_update(connection_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1)
      return fail_by_openssl();
    records_ = 0;
  }
  ++records_;
  size_t written = 0;
  if (SSL_write_ex(connection_.get(), plain.data(), plain.size(), &written) != 1)
    return fail_by_openssl();
  if (written == plain.size()) return {};
  return fail(error(SK_ERR_INTERNAL, "TLS: OpenSSL took {} bytes of a record of {}", written,
                    plain.size()));
}

Result<size_t> Tls::open(std::span<std::byte> room) {
  drop_errors();
  size_t got = 0;
  if (SSL_read_ex(connection_.get(), room.data(), room.size(), &got) == 1) return got;
  switch (SSL_get_error(connection_.get(), 0)) {
    case SSL_ERROR_WANT_READ:
      return size_t{0};
    case SSL_ERROR_ZERO_RETURN:
      farewell_ = true;
      return size_t{0};
    default:
      return fail_by_openssl();
  }
}

Status Tls::flush() {
  if (!holds_output()) return {};
  std::array<iovec, 2> room;
  const std::span<const iovec> parts =
      wire_.out.empty() ? std::span<const iovec>() : wire_.out.parts(room);
  SK_ASSIGN_OR_RETURN(const size_t sent, below_->send(parts));
  wire_.out.consume(sent);
  return {};
}

Result<bool> Tls::fill() {
  Result<size_t> got = below_->receive(wire_.in.room());
  if (!got.ok()) return fail(std::move(got.status()));
  wire_.in.filled(*got);
  if (!shaken_) came_ += *got;
  if (*got > 0 || !below_->ended()) return *got > 0;
  if (!wire_.in.empty()) {
    return fail(error(SK_ERR_PEER_LOST,
                      "TLS: the stream was cut inside a record: it ends {} bytes behind its begin",
                      wire_.in.size()));
  }
  if (!shaken_) {
    return fail(
        error(SK_ERR_PEER_LOST, "TLS: the other end closed the stream during the handshake"));
  }
  return false;
}

Status Tls::fail(Status why) {
  broken_ = std::move(why);
  // An alert, if OpenSSL made one. Where there is no room the other end does without.
  [[maybe_unused]] const Status told = flush();
  return broken_.clone();
}

}  // namespace

Result<std::unique_ptr<stream::Pipe>> make_tls(std::unique_ptr<stream::Pipe> below, Side side,
                                               std::span<const std::byte> key,
                                               std::string_view identity,
                                               uint64_t records_per_key) {
  if (below == nullptr) {
    return error(SK_ERR_INVALID_ARGUMENT, "below is null: TLS needs a stream to go over");
  }
  if (key.size() != kKeyBytes) {
    return error(SK_ERR_INVALID_ARGUMENT, "key has {} bytes: it must have {}", key.size(),
                 kKeyBytes);
  }
  if (identity.empty() || identity.size() > kIdentityBytesMax) {
    return error(SK_ERR_INVALID_ARGUMENT, "identity has {} bytes: it must have 1 to {}",
                 identity.size(), kIdentityBytesMax);
  }
  if (records_per_key == 0) {
    return error(SK_ERR_INVALID_ARGUMENT, "records_per_key is 0: it must be at least 1");
  }
  auto made = std::make_unique<Tls>(std::move(below), records_per_key);
  SK_RETURN_IF_ERROR(made->begin(side, key, identity));
  return std::unique_ptr<stream::Pipe>(std::move(made));
}

}  // namespace sk::tls
