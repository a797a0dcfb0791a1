#include "tests/unit/transport/bootstrap/sim/strangers.h"

#include <algorithm>

#include "tests/unit/transport/bootstrap/sim/world.h"
#include "transport/bootstrap/wire.h"

namespace sk::sim {
namespace {

constexpr int64_t kStaysNs = 2 * kS;
constexpr int64_t kLooksNs = 50 * kMs;

std::string text_of(const MemberHello& hello) {
  return std::string(reinterpret_cast<const char*>(&hello), sizeof(hello));
}

// What it says once it stands.
std::string words(Network& network, const Stranger& stranger, int world_size) {
  MemberHello hello;
  hello.rank = uint32_t(network.draw(uint64_t(world_size)));
  hello.world_size = uint32_t(world_size);
  hello.has_secret = 1;
  for (std::byte& each : hello.nonce) each = std::byte(network.draw(256));
  switch (stranger.kind) {
    case StrangerKind::kSilent:
    case StrangerKind::kResets:
      return "";
    case StrangerKind::kGarbage: {
      std::string garbage(size_t(network.draw(4000)), ' ');
      for (char& each : garbage) each = char(network.draw(256));
      return garbage;
    }
    case StrangerKind::kHalfHello:
      return text_of(hello).substr(0, 1 + size_t(network.draw(sizeof(hello) - 1)));
    case StrangerKind::kOtherJob:
      hello.job.fill(std::byte{7});
      return text_of(hello);
    case StrangerKind::kNoSecret:  // The job's own hello, as far as it is no secret.
    case StrangerKind::kReplay:
      break;
  }
  if (network.overheard.empty()) return text_of(hello);
  std::string said = network.overheard[size_t(network.draw(network.overheard.size()))];
  if (stranger.kind == StrangerKind::kNoSecret && said.size() == sizeof(hello))
    said[offsetof(MemberHello, nonce)] ^= 1;
  // Behind it what may be taken for a proof.
  return said + std::string(sizeof(MemberProof), '\1');
}

}  // namespace

void be_stranger(Network& network, const Stranger& stranger, int world_size) {
  sockaddr_in hub = {};
  hub.sin_family = AF_INET;
  hub.sin_addr.s_addr = htonl(Network::address_of(0));
  hub.sin_port = htons(kPort);
  std::vector<int> fds;
  for (int i = 0; i < stranger.count; ++i) {
    const int fd = network.socket(AF_INET, SOCK_STREAM);
    network.connect(fd, hub);
    fds.push_back(fd);
    network.fibers().pause(std::max<int64_t>(stranger.apart_ns, 1 * kUs));
    const std::string said = words(network, stranger, world_size);
    network.send(fd, said.data(), said.size());
    if (stranger.kind == StrangerKind::kResets) network.close(fd);
  }
  const int64_t end_ns = network.now_ns() + kStaysNs;
  while (network.now_ns() < end_ns) {
    for (const int fd : fds) {
      char room[256];
      while (network.receive(fd, room, sizeof(room)) > 0) {
      }
    }
    network.fibers().pause(kLooksNs);
  }
  for (const int fd : fds) network.close(fd);
}

}  // namespace sk::sim
