#include "tools/sk_doctor/connections.h"

#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "transport/bootstrap/address.h"

namespace sk::doctor {
namespace {

std::string host_of(const std::string& text) { return text.substr(0, text.rfind(':')); }

bool has(const Connections& all, const Connection& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

}  // namespace

Connections open_connections() {
  Connections all;
  std::error_code failed;
  using Folder = std::filesystem::directory_iterator;
  for (Folder it("/proc/self/fd", failed), end; !failed && it != end; it.increment(failed)) {
    const std::string name = it->path().filename();
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    Address here, there;
    here.bytes = there.bytes = sizeof(here.storage);
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&here.storage), &here.bytes) != 0 ||
        (here.family() != AF_INET && here.family() != AF_INET6) ||
        getpeername(fd, reinterpret_cast<sockaddr*>(&there.storage), &there.bytes) != 0)
      continue;
    all.emplace_back(here.text(), there.text());
  }
  return all;
}

Connections opened_since(const Connections& before) {
  Connections now = open_connections();
  std::erase_if(now, [&](const Connection& each) { return has(before, each); });
  return now;
}

std::pair<std::string, std::string> common(const Connections& mine, const Connections& theirs) {
  for (const auto& [here, there] : mine)
    if (has(theirs, {there, here})) return {host_of(here), host_of(there)};
  return {};
}

}  // namespace sk::doctor
