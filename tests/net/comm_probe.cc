// A rank for the tests of many hosts: makes a communicator as its environment says, sums numbers
// over all ranks, a few and many, and prints SK_OK, or what was refused and why. It ends with 0
// either way. Where SK_PROBE_ROUNDS is set, it goes on so many times.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "sk.h"

namespace {

// Whole numbers that f32 holds: the sum is exact.
sk_status sum_over_all(sk_comm* comm, int rank, int world_size, size_t count, bool* right) {
  std::vector<float> in(count), out(count, -1.0f);
  for (size_t i = 0; i < count; ++i) in[i] = float((i + size_t(rank)) % 1000);
  const sk_status status =
      sk_allreduce(comm, in.data(), out.data(), count, SK_F32, SK_SUM, nullptr);
  for (size_t i = 0; i < count && status == SK_OK; ++i) {
    float due = 0;
    for (int each = 0; each < world_size; ++each) due += float((i + size_t(each)) % 1000);
    *right = *right && out[i] == due;
  }
  return status;
}

}  // namespace

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
  bool right = true;
  const char* rounds_text = std::getenv("SK_PROBE_ROUNDS");
  const int rounds = rounds_text == nullptr ? 3 : std::atoi(rounds_text);
  if (status == SK_OK) {
    sk_comm_info info{};
    info.struct_size = sizeof(info);
    status = sk_comm_query(comm, &info);
    for (int round = 0; round < rounds; ++round) {
      for (const size_t count : {size_t{1}, size_t{4099}, size_t{1} << 20}) {
        if (status == SK_OK) status = sum_over_all(comm, info.rank, info.world_size, count, &right);
      }
      if (round == 0 && rounds > 3) {
        std::puts("begun");
        std::fflush(stdout);
      }
    }
  }
  if (status == SK_OK) {
    std::puts(right ? "SK_OK" : "a sum is wrong");
  } else {
    std::printf("%s: %s\n", sk_status_name(status), sk_last_error());
  }
  if (comm != nullptr) status = sk_comm_free(comm);
  return status == SK_OK || comm == nullptr ? 0 : 1;
}
