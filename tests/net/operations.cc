#include "tests/net/operations.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sk::net {
namespace {

constexpr int64_t kCount = 33;  // Of a rank.

float number(int rank, int64_t i) { return float((i + 7 * int64_t{rank}) % 1000); }

std::vector<float> numbers(int rank, int64_t count) {
  std::vector<float> all(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) all[size_t(i)] = number(rank, i);
  return all;
}

sk_status gather(sk_comm* comm, int rank, int world_size, bool* right) {
  const std::vector<float> in = numbers(rank, kCount);
  std::vector<float> out(size_t(world_size * kCount), -1.0f);
  const sk_status status = sk_allgather(comm, in.data(), out.data(), kCount, SK_F32, nullptr);
  for (int peer = 0; peer < world_size && status == SK_OK; ++peer)
    for (int64_t i = 0; i < kCount; ++i)
      *right = *right && out[size_t(peer * kCount + i)] == number(peer, i);
  return status;
}

sk_status scatter(sk_comm* comm, int rank, int world_size, bool* right) {
  const std::vector<float> in = numbers(rank, world_size * kCount);
  std::vector<float> out(size_t(kCount), -1.0f);
  const sk_status status =
      sk_reduce_scatter(comm, in.data(), out.data(), kCount, SK_F32, SK_SUM, nullptr);
  for (int64_t i = 0; i < kCount && status == SK_OK; ++i) {
    float due = 0;
    for (int peer = 0; peer < world_size; ++peer) due += number(peer, rank * kCount + i);
    *right = *right && out[size_t(i)] == due;
  }
  return status;
}

sk_status broadcast(sk_comm* comm, int root, bool* right) {
  const std::vector<float> in = numbers(root, kCount);
  std::vector<float> out(size_t(kCount), -1.0f);
  const sk_status status = sk_broadcast(comm, in.data(), out.data(), kCount, SK_F32, root, nullptr);
  *right = *right && (status != SK_OK || out == in);
  return status;
}

}  // namespace

sk_status send_to_ranks_behind(sk_comm* comm, int rank, int world_size, int distance, bool* right) {
  const int to = (rank + distance) % world_size;
  const int from = (rank + world_size - distance) % world_size;
  const std::vector<float> in = numbers(rank, kCount);
  std::vector<float> out(size_t(kCount), -1.0f);
  const auto send = [&] { return sk_send(comm, in.data(), kCount, SK_F32, to, nullptr); };
  const auto receive = [&] { return sk_recv(comm, out.data(), kCount, SK_F32, from, nullptr); };
  const bool sends_first = rank / distance % 2 == 0;  // Not all: a send may wait to be taken.
  sk_status status = sends_first ? send() : receive();
  if (status == SK_OK) status = sends_first ? receive() : send();
  *right = *right && (status != SK_OK || out == numbers(from, kCount));
  return status;
}

sk_status every_operation(sk_comm* comm, int rank, int world_size, int messages, bool* right) {
  sk_status status = sk_barrier(comm, nullptr);
  if (status == SK_OK) status = gather(comm, rank, world_size, right);
  if (status == SK_OK) status = scatter(comm, rank, world_size, right);
  for (const int root : {0, world_size - 1})
    if (status == SK_OK) status = broadcast(comm, root, right);
  const int most = std::min(messages, world_size - 1);
  for (int distance = 1; distance <= most && status == SK_OK; ++distance)
    status = send_to_ranks_behind(comm, rank, world_size, distance, right);
  return status;
}

}  // namespace sk::net
