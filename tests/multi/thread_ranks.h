// Ranks as threads of this process, each with its communicator.
#ifndef SK_TESTS_MULTI_THREAD_RANKS_H_
#define SK_TESTS_MULTI_THREAD_RANKS_H_

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "sk.h"

namespace sk::testing_ops {

// body(comm, rank) runs on each of `ranks` threads; the communicators are freed behind it. `change`
// may alter what they are made of; `library` is what the library is told, null: nothing.
inline void in_thread_ranks(int ranks, const std::function<void(sk_comm*, int)>& body,
                            const std::function<void(sk_comm_config&)>& change = nullptr,
                            const sk_config* library = nullptr) {
  sk_context* context = nullptr;
  ASSERT_EQ(sk_init(library, &context), SK_OK);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      sk_comm_config config{};
      config.struct_size = sizeof(config);
      config.bootstrap = SK_BOOTSTRAP_THREADS;
      config.rank = rank;
      config.world_size = ranks;
      config.timeout_ms = 60'000;
      config.symmetric_bytes_max = 16 << 20;
      if (change) change(config);
      sk_comm* comm = nullptr;
      ASSERT_EQ(sk_comm_create(context, &config, &comm), SK_OK) << sk_last_error();
      body(comm, rank);
      EXPECT_EQ(sk_comm_free(comm), SK_OK) << sk_last_error();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sk_finalize(context), SK_OK) << sk_last_error();
}

}  // namespace sk::testing_ops

#endif  // SK_TESTS_MULTI_THREAD_RANKS_H_
