// A stream under TLS 1.3, over a stream: both ends show that they hold one key, and what is between
// them can neither read nor change a byte.
//
// The key is an external PSK with a fresh Diffie-Hellman exchange: what was recorded stays closed
// when the key is found out later. There are no certificates, tickets, early data or compression.
#ifndef SK_TRANSPORT_TLS_TLS_H_
#define SK_TRANSPORT_TLS_TLS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "lib/base/status.h"
#include "transport/stream/pipe.h"

namespace sk::tls {

// Of a connection: one end dials, the other accepts.
enum class Side : uint8_t { kDials, kAccepts };

inline constexpr size_t kKeyBytes = 32;
inline constexpr size_t kIdentityBytesMax = 128;

// AES-GCM wears a key out after 2^24.5 full records (RFC 8446, 5.5); a new one is taken long
// before.
inline constexpr uint64_t kRecordsPerKey = uint64_t{1} << 22;

// `identity` names the key and crosses the wire in the clear; both ends give the same two. Moves no
// byte yet: the handshake is done by send() and receive(), and the dialing end's first words of it
// are held output. Until it is done send() takes a record's worth, which goes out then, and not
// before.
//
// Errors of the pipe that are not those of `below`: SK_ERR_TRUST where the other end does not hold
// the key, names another or does not speak TLS; SK_ERR_TRANSPORT where bytes were changed;
// SK_ERR_PEER_LOST where the stream ends inside a record. One that ends between records has
// ended(), whether or not TLS said goodbye: what tells a farewell from a death are the frames
// above. So this end never says it.
Result<std::unique_ptr<stream::Pipe>> make_tls(std::unique_ptr<stream::Pipe> below, Side side,
                                               std::span<const std::byte> key,
                                               std::string_view identity,
                                               uint64_t records_per_key = kRecordsPerKey);

// A key for one use of a secret: HKDF-SHA256 over label and context, which no other pair collides
// with. Tells nothing of the secret or of its other keys.
Result<std::array<std::byte, kKeyBytes>> derive_key(std::span<const std::byte> secret,
                                                    std::string_view label,
                                                    std::span<const std::byte> context);

}  // namespace sk::tls

#endif  // SK_TRANSPORT_TLS_TLS_H_
