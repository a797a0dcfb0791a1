// Proofs that two ranks hold the same job secret, without showing it.
#ifndef SK_TRANSPORT_BOOTSTRAP_SECRET_H_
#define SK_TRANSPORT_BOOTSTRAP_SECRET_H_

#include <array>
#include <cstddef>
#include <initializer_list>
#include <optional>
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

// A variable of this process; those of a job secret also when they have been taken in.
std::optional<std::string> process_env(const char* name);

// Takes the job secret of this process's environment in: its variables are removed and their text
// is wiped, its descriptor is read and closed. What this process starts from here on gets neither;
// process_env() and read_job_secret() still answer. Nothing where there is none.
void take_in_job_secret();

inline std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace sk

#endif  // SK_TRANSPORT_BOOTSTRAP_SECRET_H_
