#include "transport/tcp/networks.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

namespace sk::tcp {
namespace {

struct Own {
  std::string interface;
  Address address;
};

std::span<const std::byte> bits_of(const Address& address) {
  if (address.family() == AF_INET6) {
    const auto* in6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
    return std::as_bytes(std::span(in6->sin6_addr.s6_addr));
  }
  const auto* in = reinterpret_cast<const sockaddr_in*>(&address.storage);
  return std::as_bytes(std::span(&in->sin_addr, 1));
}

// Those of one link mean something only together with an interface, which differs from host to
// host.
bool is_link_local(const Address& address) {
  const std::span<const std::byte> bits = bits_of(address);
  if (address.family() == AF_INET6)
    return bits[0] == std::byte{0xfe} && (bits[1] & std::byte{0xc0}) == std::byte{0x80};
  return bits[0] == std::byte{169} && bits[1] == std::byte{254};
}

Result<std::vector<Own>> all_addresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return system_error("getifaddrs()");
  std::vector<Own> all;
  for (const ifaddrs* it = list; it != nullptr; it = it->ifa_next) {
    const bool up = (it->ifa_flags & IFF_UP) != 0 && it->ifa_addr != nullptr;
    const int family = up ? it->ifa_addr->sa_family : AF_UNSPEC;
    if (family != AF_INET && family != AF_INET6) continue;
    Own own = {.interface = it->ifa_name, .address = {}};
    own.address.bytes = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    memcpy(&own.address.storage, it->ifa_addr, own.address.bytes);
    if (!is_link_local(own.address)) all.push_back(std::move(own));
  }
  freeifaddrs(list);
  std::stable_sort(all.begin(), all.end(), [](const Own& a, const Own& b) {
    return a.address.family() == AF_INET && b.address.family() != AF_INET;
  });
  return all;
}

struct Network {
  Address base;
  int bits = 0;
  bool has(const Address& address) const {
    if (address.family() != base.family()) return false;
    const std::span<const std::byte> a = bits_of(address), b = bits_of(base);
    for (int bit = 0; bit < bits; ++bit) {
      const std::byte mask{uint8_t(0x80 >> (bit % 8))};
      if ((a[size_t(bit) / 8] & mask) != (b[size_t(bit) / 8] & mask)) return false;
    }
    return true;
  }
};

// nullopt: it is no network.
std::optional<Network> network_of(const std::string& text) {
  const size_t slash = text.find('/');
  const std::string base = text.substr(0, slash);
  Network network;
  auto* in = reinterpret_cast<sockaddr_in*>(&network.base.storage);
  auto* in6 = reinterpret_cast<sockaddr_in6*>(&network.base.storage);
  if (inet_pton(AF_INET, base.c_str(), &in->sin_addr) == 1) {
    network.base.storage.ss_family = AF_INET;
    network.bits = 32;
  } else if (inet_pton(AF_INET6, base.c_str(), &in6->sin6_addr) == 1) {
    network.base.storage.ss_family = AF_INET6;
    network.bits = 128;
  } else {
    return std::nullopt;
  }
  if (slash == std::string::npos) return network;
  int bits = -1;
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data() + slash + 1, end, bits);
  if (code != std::errc() || stop != end || bits < 0 || bits > network.bits) return std::nullopt;
  network.bits = bits;
  return network;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (;;) {
    const size_t comma = text.find(',', begin);
    parts.push_back(text.substr(begin, comma - begin));
    if (comma == std::string::npos) return parts;
    begin = comma + 1;
  }
}

}  // namespace

Result<std::vector<Address>> own_addresses(const std::string& wanted, size_t most,
                                           const Address* proven) {
  SK_ASSIGN_OR_RETURN(std::vector<Own> all, all_addresses());
  const auto first = std::ranges::find_if(all, [&](const Own& own) {
    return wanted.empty() && proven != nullptr && own.address.family() == proven->family() &&
           std::ranges::equal(bits_of(own.address), bits_of(*proven));
  });
  if (first != all.end()) std::rotate(all.begin(), first, first + 1);
  std::vector<Address> chosen;
  const auto add = [&](const Address& address) {
    if (chosen.size() < most && std::find(chosen.begin(), chosen.end(), address) == chosen.end())
      chosen.push_back(address);
  };
  if (wanted.empty()) {
    for (const Own& own : all)
      if (!own.address.loopback()) add(own.address);
    if (!chosen.empty()) return chosen;
    return error(SK_ERR_TRANSPORT,
                 "this host has no address that others reach: its interfaces have loopback and "
                 "link-local ones only (SK_NET names others)");
  }
  for (const std::string& part : split(wanted)) {
    const std::optional<Network> network = network_of(part);
    const bool named = if_nametoindex(part.c_str()) != 0;
    if (!network && !named) {
      return error(SK_ERR_INVALID_ARGUMENT,
                   "SK_NET is \"{}\": \"{}\" is neither an interface of this host nor a network "
                   "(\"10.1.0.0/16\")",
                   wanted, part);
    }
    for (const Own& own : all)
      if (named ? own.interface == part : network->has(own.address)) add(own.address);
  }
  if (!chosen.empty()) return chosen;
  return error(SK_ERR_TRANSPORT, "SK_NET is \"{}\": this host has no address there", wanted);
}

Result<std::pair<int, int>> port_range(const std::string& text) {
  if (text.empty()) return std::pair(0, 0);
  int low = 0, high = 0;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, low);
  if (first.ec == std::errc() && first.ptr != end && *first.ptr == '-') {
    const auto last = std::from_chars(first.ptr + 1, end, high);
    if (last.ec == std::errc() && last.ptr == end && low >= 1 && low <= high && high <= 65535)
      return std::pair(low, high);
  }
  return error(SK_ERR_INVALID_ARGUMENT,
               "SK_PORT_RANGE is \"{}\": it must be LOW-HIGH, with ports from 1 to 65535", text);
}

}  // namespace sk::tcp
