// A rank for the tests of launchers: meets the others ROUNDS times, gathers its number, prints what
// it knows, and as a rank that lives runs a shell command. usage: rank_probe [ROUNDS [COMMAND]]
#include <cstdio>
#include <cstdlib>
#include <string>

#include "transport/bootstrap/bootstrap.h"

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 1;
  for (int i = 0; i < rounds; ++i) {
    sk::BootstrapConfig config;
    config.timeout_ns = 30'000'000'000;
    auto made = sk::make_bootstrap(config);
    if (!made.ok()) {
      std::fprintf(stderr, "rank_probe: %s\n", made.status().message().c_str());
      return 1;
    }
    sk::Bootstrap& bootstrap = *made.value();
    const std::byte mine = std::byte('0' + bootstrap.rank());
    const auto all = bootstrap.allgather(std::span(&mine, 1), config.timeout_ns);
    if (!all.ok()) {
      std::fprintf(stderr, "rank_probe: %s\n", all.status().message().c_str());
      return 1;
    }
    if (i + 1 < rounds) continue;
    const std::string text(reinterpret_cast<const char*>(all.value().data()), all.value().size());
    // One write, so that lines of several ranks stay whole.
    const std::string line =
        fmt::format("{}/{} on {}/{}: {}\n", bootstrap.rank(), bootstrap.world_size(),
                    bootstrap.local_rank(), bootstrap.local_size(), text);
    std::fwrite(line.data(), 1, line.size(), stdout);
    std::fflush(stdout);
    if (argc > 2 && std::system(argv[2]) != 0) return 3;
  }
  return 0;
}
