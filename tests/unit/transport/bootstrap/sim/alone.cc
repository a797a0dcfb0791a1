#include "tests/unit/transport/bootstrap/sim/alone.h"

#include "tests/support/alone.h"
#include "transport/tcp/tcp.h"

namespace sk::sim {
using testing_support::Alone;

Result<std::unique_ptr<Endpoint>> connect_alone(Bootstrap& bootstrap, int64_t timeout_ns) {
  SegmentLayout layout;
  layout.world_size = uint32_t(bootstrap.world_size());
  layout.signal_count_max = 64;
  TcpConfig config;
  config.timeout_ns = timeout_ns;
  config.secret = "a secret of all tests";
  config.local = [](Bootstrap& all, const SegmentLayout& wanted) {
    return Result<std::unique_ptr<Endpoint>>(std::make_unique<Alone>(uint32_t(all.rank()), wanted));
  };
  return connect_tcp(bootstrap, layout, config);
}

}  // namespace sk::sim
