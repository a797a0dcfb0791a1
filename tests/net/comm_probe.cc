// A rank for the tests of many hosts: makes a communicator as its environment says, and prints
// SK_OK, or what was refused and why. It ends with 0 either way.
#include <cstdio>

#include "sk.h"

int main() {
  sk_context* context = nullptr;
  sk_status status = sk_init(nullptr, &context);
  sk_comm* comm = nullptr;
  if (status == SK_OK) {
    sk_comm_config config{};
    config.struct_size = sizeof(config);
    config.bootstrap = SK_BOOTSTRAP_ENV;
    config.timeout_ms = 60'000;
    config.symmetric_bytes_max = 16 << 20;
    status = sk_comm_create(context, &config, &comm);
  }
  if (status == SK_OK) {
    std::puts("SK_OK");
  } else {
    std::printf("%s: %s\n", sk_status_name(status), sk_last_error());
  }
  if (comm != nullptr) status = sk_comm_free(comm);
  return status == SK_OK || comm == nullptr ? 0 : 1;
}
