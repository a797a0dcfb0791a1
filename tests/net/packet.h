// IP packets as a link sees them: whom they are for, and how they are damaged.
#ifndef SK_TESTS_NET_PACKET_H_
#define SK_TESTS_NET_PACKET_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace sk::net {

using Bytes = std::span<uint8_t>;
using ConstBytes = std::span<const uint8_t>;

// Of IPv6, and one of IPv4 as ::ffff:a.b.c.d.
using Address = std::array<uint8_t, 16>;

// Nothing for what is no address.
std::optional<Address> parse_address(const std::string& text);
// Nothing for what is no packet of IPv4 or IPv6.
std::optional<Address> destination(ConstBytes packet);

// Flips one bit behind the IP header, which `bit` chooses. False: there is none.
bool corrupt(Bytes packet, uint64_t bit);

// Flips one bit of what a TCP or UDP packet carries, and sets its checksum as if that had been
// sent: only the program can notice. False, and nothing changed: it carries nothing, or is of
// another protocol, or a later fragment.
bool corrupt_unseen(Bytes packet, uint64_t bit);

}  // namespace sk::net

#endif  // SK_TESTS_NET_PACKET_H_
