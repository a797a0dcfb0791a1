#include "tests/net/tun.h"

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <sched.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <iterator>

namespace sk::net {

Result<local::Fd> open_tun(const std::string& space) {
  const local::Fd there(open(space.c_str(), O_RDONLY | O_CLOEXEC));
  if (!there.open()) return system_error(space);
  if (setns(there.get(), CLONE_NEWNET) != 0) return system_error(space + ": setns");
  local::Fd tun(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!tun.open()) return system_error("/dev/net/tun");
  ifreq request{};
  std::copy(std::begin(kTunName), std::end(kTunName), request.ifr_name);
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (ioctl(tun.get(), TUNSETIFF, &request) != 0) return system_error(space + ": TUNSETIFF");
  return tun;
}

}  // namespace sk::net
