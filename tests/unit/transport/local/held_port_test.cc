// Ports that a launcher holds for a server of its ranks, and who else can have them.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "tests/support/as_nobody.h"
#include "transport/local/link.h"

namespace sk::local {
namespace {

using namespace sk::testing_support;

// 0, or the errno of what failed.
int listen_with(int option, uint16_t port) {
  const Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (setsockopt(fd.get(), SOL_SOCKET, option, &on, sizeof on) != 0) return errno;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return errno;
  return listen(fd.get(), 1) == 0 ? 0 : errno;
}

TEST(HeldPort, IsForServersOfThisUserAlone) {
  const auto held = hold_port(HeldFor::kThisUser);
  ASSERT_TRUE(held.ok()) << held.status().message();
  EXPECT_EQ(listen_with(SO_REUSEPORT, held.value().port), 0);
  EXPECT_EQ(listen_with(SO_REUSEADDR, held.value().port), EADDRINUSE);
  if (!can_be_nobody()) GTEST_SKIP() << "only root can run a program as another user";
  for (const int option : {SO_REUSEPORT, SO_REUSEADDR}) {
    EXPECT_EQ(run_as_nobody([&] { return listen_with(option, held.value().port); }), EADDRINUSE);
  }
}

// What PyTorch's own servers need; so nothing that is told there may be believed.
TEST(HeldPort, IsForWhoeverAsksWhereTheServerCannotShareItOtherwise) {
  const auto held = hold_port(HeldFor::kAnyoneAsks);
  ASSERT_TRUE(held.ok()) << held.status().message();
  EXPECT_EQ(listen_with(SO_REUSEADDR, held.value().port), 0);
  EXPECT_EQ(listen_with(SO_REUSEPORT, held.value().port), EADDRINUSE);
}

}  // namespace
}  // namespace sk::local
