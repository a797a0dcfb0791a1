#include "tests/unit/transport/tls/wires.h"

#include <gtest/gtest.h>
#include <openssl/err.h>

#include <algorithm>
#include <cstring>

namespace sk::tls::testing_support {

size_t WireEnd::some(size_t most) {
  if (random_ == nullptr || most == 0) return most;
  // Often little, for that is where records are cut.
  if ((*random_)() % 4 == 0) return (*random_)() % std::min<size_t>(most + 1, 8);
  return (*random_)() % (most + 1);
}

Result<size_t> WireEnd::send(std::span<const iovec> parts) {
  ++asked_->sends;
  if (in_->closed) return error(SK_ERR_PEER_LOST, "the wire's other end is closed");
  size_t offered = 0;
  for (const iovec& part : parts) offered += part.iov_len;
  const size_t under_way = out_->bytes.size() - std::min(out_->read, out_->bytes.size());
  size_t left = some(std::min(offered, out_->room - std::min(out_->room, under_way)));
  const size_t taken = left;
  for (const iovec& part : parts) {
    const size_t size = std::min(left, part.iov_len);
    out_->bytes.append(static_cast<const char*>(part.iov_base), size);
    left -= size;
  }
  if (taken == 0) ++asked_->sent_none;
  return taken;
}

Result<size_t> WireEnd::receive(std::span<std::byte> room) {
  ++asked_->receives;
  EXPECT_FALSE(room.empty());
  const size_t size = some(std::min(room.size(), in_->arriving() - in_->read));
  for (size_t i = 0; i < size; ++i) room[i] = std::byte(in_->bytes[in_->read + i]);
  const auto last = in_->changes.lower_bound(in_->read + size);
  for (auto it = in_->changes.lower_bound(in_->read); it != last; ++it)
    room[it->first - in_->read] ^= std::byte(it->second);
  in_->read += size;
  if (size == 0) ++asked_->received_none;
  return size;
}

std::vector<std::byte> key_of(char letter) { return std::vector(kKeyBytes, std::byte(letter)); }

Stream::Stream(std::mt19937* random, const Who& dials, const Who& accepts) {
  auto dialed = make_tls(std::make_unique<WireEnd>(there, back, random, &dialer_asked),
                         Side::kDials, key_of(dials.key), dials.identity, dials.records_per_key);
  auto accepted =
      make_tls(std::make_unique<WireEnd>(back, there, random, &acceptor_asked), Side::kAccepts,
               key_of(accepts.key), accepts.identity, accepts.records_per_key);
  EXPECT_TRUE(dialed.ok()) << dialed.status().message();
  EXPECT_TRUE(accepted.ok()) << accepted.status().message();
  dialer = std::move(*dialed);
  acceptor = std::move(*accepted);
}

Result<size_t> send_text(stream::Pipe& pipe, std::string_view text) {
  const iovec part = {.iov_base = const_cast<char*>(text.data()), .iov_len = text.size()};
  return pipe.send({&part, 1});
}

std::string receive_all(stream::Pipe& pipe, Status* error) {
  std::string all;
  std::vector<std::byte> room(40'000);
  while (true) {
    Result<size_t> got = pipe.receive(room);
    EXPECT_EQ(ERR_peek_error(), 0U) << "OpenSSL's queue of errors is left";
    if (!got.ok()) {
      if (error != nullptr) *error = std::move(got.status());
      return all;
    }
    if (*got == 0) return all;
    all.append(reinterpret_cast<const char*>(room.data()), *got);
  }
}

Ends shake(Stream& stream) {
  Ends ends;
  size_t before = kNowhere;
  for (int idle = 0; idle < 50;) {
    for (const auto& [pipe, status] : {std::pair(stream.dialer.get(), &ends.dialer),
                                       std::pair(stream.acceptor.get(), &ends.acceptor)}) {
      if (pipe == nullptr || !status->ok()) continue;
      Result<size_t> sent = pipe->send({});
      if (!sent.ok()) *status = std::move(sent.status());
      EXPECT_EQ(ERR_peek_error(), 0U) << "OpenSSL's queue of errors is left";
    }
    const size_t now = stream.there->read + stream.there->bytes.size() + stream.back->read +
                       stream.back->bytes.size();
    idle = now == before ? idle + 1 : 0;
    before = now;
  }
  return ends;
}

}  // namespace sk::tls::testing_support
