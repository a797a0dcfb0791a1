// sk_link_emulator: the network of a few hosts that are network namespaces of this machine.
//
// Each host gets a TUN device; a packet that one sends goes through the hub and comes out at the
// host that has its destination. Multicast and strangers' addresses lead nowhere, so no router or
// neighbour is ever found. It prints "ready", then answers commands (commands.h); it ends, and the
// devices with it, when its input does.
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>

#include "tests/net/commands.h"
#include "tests/net/packet.h"
#include "tests/net/tun.h"

namespace sk::net {
namespace {

constexpr char kUsage[] =
    "usage: sk_link_emulator SEED NAME=NETNS=ADDRESS[,ADDRESS...] NAME=NETNS=ADDRESS... ...\n"
    "  NETNS is a file such as /proc/PID/ns/net; at least two hosts\n";
constexpr size_t kPacketBytesMax = 65536;
constexpr int kReadsInARow = 64;  // Of one host, before the others get their turn.

struct Hosts {
  std::vector<std::string> names;
  std::vector<local::Fd> tuns;
  std::map<Address, int> by_address;
};

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == at) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

Status add_host(Hosts& hosts, const std::string& argument) {
  const std::vector<std::string> parts = split(argument, '=');
  if (parts.size() != 3) {
    return error(SK_ERR_INVALID_ARGUMENT, "\"{}\" is not NAME=NETNS=ADDRESS", argument);
  }
  for (const std::string& text : split(parts[2], ',')) {
    const std::optional<Address> address = parse_address(text);
    if (!address) return error(SK_ERR_INVALID_ARGUMENT, "\"{}\" is no address", text);
    if (!hosts.by_address.emplace(*address, int(hosts.names.size())).second) {
      return error(SK_ERR_INVALID_ARGUMENT, "two hosts have the address {}", text);
    }
  }
  SK_ASSIGN_OR_RETURN(local::Fd tun, open_tun(parts[1]));
  hosts.names.push_back(parts[0]);
  hosts.tuns.push_back(std::move(tun));
  return {};
}

int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

class Emulator {
 public:
  Emulator(Hosts hosts, uint64_t seed)
      : hosts_(std::move(hosts)), hub_(int(hosts_.names.size()), seed) {
    polled_.push_back({.fd = STDIN_FILENO, .events = POLLIN, .revents = 0});
    for (const local::Fd& tun : hosts_.tuns) {
      polled_.push_back({.fd = tun.get(), .events = POLLIN, .revents = 0});
    }
  }

  // Until the input ends.
  Status run() {
    while (true) {
      deliver();
      if (!wait()) return system_error("ppoll");
      if (polled_[0].revents != 0 && !obey_input()) return {};
      for (size_t host = 0; host < hosts_.tuns.size(); ++host) {
        if (polled_[host + 1].revents != 0) read_from(int(host));
      }
    }
  }

 private:
  // Until there is something to read, or a packet is due.
  bool wait() {
    timespec time{};
    const std::optional<int64_t> due_ns = hub_.due_ns();
    if (due_ns) {
      const int64_t left_ns = std::max<int64_t>(*due_ns - now_ns(), 0);
      time = {.tv_sec = left_ns / 1'000'000'000, .tv_nsec = left_ns % 1'000'000'000};
    }
    for (pollfd& each : polled_) each.revents = 0;
    const int found = ppoll(polled_.data(), polled_.size(), due_ns ? &time : nullptr, nullptr);
    return found >= 0 || errno == EINTR;
  }

  void deliver() {
    while (std::optional<Hub::Arrival> arrival = hub_.take(now_ns())) {
      const Packet& packet = arrival->packet;
      const int tun = hosts_.tuns[size_t(arrival->to)].get();
      if (write(tun, packet.data(), packet.size()) < 0) hub_.refuse(arrival->from, arrival->to);
    }
  }

  void read_from(int host) {
    for (int i = 0; i < kReadsInARow; ++i) {
      const ssize_t bytes = read(hosts_.tuns[size_t(host)].get(), buffer_.data(), buffer_.size());
      if (bytes <= 0) return;
      const Bytes packet(buffer_.data(), size_t(bytes));
      const std::optional<Address> address = destination(packet);
      const auto to = address ? hosts_.by_address.find(*address) : hosts_.by_address.end();
      if (to == hosts_.by_address.end() || to->second == host) continue;
      hub_.send(host, to->second, {packet.begin(), packet.end()}, now_ns());
    }
  }

  // False: there is no more.
  bool obey_input() {
    std::array<char, 4096> bytes{};
    const ssize_t there = read(STDIN_FILENO, bytes.data(), bytes.size());
    if (there < 0 && errno == EINTR) return true;
    if (there <= 0) return false;
    input_.append(bytes.data(), size_t(there));
    for (size_t end = input_.find('\n'); end != std::string::npos; end = input_.find('\n')) {
      const std::string reply = obey(hub_, hosts_.names, input_.substr(0, end));
      input_.erase(0, end + 1);
      std::fputs(reply.c_str(), stdout);
      std::fflush(stdout);
    }
    return true;
  }

  Hosts hosts_;
  Hub hub_;
  std::vector<pollfd> polled_;  // The input, then each host's device.
  std::string input_;
  std::array<uint8_t, kPacketBytesMax> buffer_{};
};

Status run(std::span<char*> arguments) {
  uint64_t seed = 0;
  const char* const end = arguments[0] + std::strlen(arguments[0]);
  const auto [stop, failure] = std::from_chars(arguments[0], end, seed);
  if (failure != std::errc() || stop != end) {
    return error(SK_ERR_INVALID_ARGUMENT, "SEED is \"{}\"; it is a whole number", arguments[0]);
  }
  Hosts hosts;
  for (char* const argument : arguments.subspan(1)) {
    SK_RETURN_IF_ERROR(add_host(hosts, argument));
  }
  prctl(PR_SET_TIMERSLACK, 1);  // A packet is due to the microsecond; 50 of them is the default.
  std::puts("ready");
  std::fflush(stdout);
  return Emulator(std::move(hosts), seed).run();
}

}  // namespace
}  // namespace sk::net

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fputs(sk::net::kUsage, stderr);
    return 2;
  }
  const sk::Status status = sk::caught([&] { return sk::net::run({argv + 1, size_t(argc - 1)}); });
  if (status.ok()) return 0;
  std::fprintf(stderr, "sk_link_emulator: %s\n", status.message().c_str());
  return 1;
}
