// Proofs that two ranks hold the same job secret, without showing it.
#ifndef SK_TRANSPORT_BOOTSTRAP_SECRET_H_
#define SK_TRANSPORT_BOOTSTRAP_SECRET_H_

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>

#include "lib/base/status.h"

namespace sk {

using Mac = std::array<std::byte, 32>;

// HMAC-SHA256 over the parts, each preceded by its length, so that no two lists of parts collide.
Result<Mac> hmac(std::span<const std::byte> key,
                 std::initializer_list<std::span<const std::byte>> parts);

// In a time that does not depend on where they differ.
bool equal_mac(std::span<const std::byte> a, std::span<const std::byte> b);

Status fill_random(std::span<std::byte> out);

inline std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace sk

#endif  // SK_TRANSPORT_BOOTSTRAP_SECRET_H_
