// The C calls on topologies: what they give, and what they refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "sk/topo.h"

namespace {

using testing::HasSubstr;

sk_topo* synthetic(const char* spec) {
  sk_topo* topo = nullptr;
  EXPECT_EQ(sk_topo_synthetic(spec, &topo), SK_OK) << sk_last_error();
  return topo;
}

std::string dump(const sk_topo* topo) {
  size_t size = 0;
  EXPECT_EQ(sk_topo_dump(topo, nullptr, 0, &size), SK_ERR_OUT_OF_RANGE);
  std::string text(size + 1, '?');
  EXPECT_EQ(sk_topo_dump(topo, text.data(), text.size(), &size), SK_OK) << sk_last_error();
  EXPECT_EQ(text.back(), '\0');
  text.pop_back();
  EXPECT_EQ(text.size(), size);
  return text;
}

sk_topo_info summary(const sk_topo* topo) {
  sk_topo_info info;
  std::memset(&info, 0x5a, sizeof(info));
  info.struct_size = sizeof(info);
  EXPECT_EQ(sk_topo_summary(topo, &info), SK_OK) << sk_last_error();
  return info;
}

TEST(TopoApi, SyntheticMachinesAreCounted) {
  sk_topo* topo = synthetic("hosts:2 sockets:2 numa:4 cores:8 threads:2 gpus:3 nics:1 memory:2");
  const sk_topo_info info = summary(topo);
  EXPECT_EQ(info.struct_size, sizeof(info));
  EXPECT_EQ(info.reserved, 0);
  EXPECT_EQ(info.hosts, 2);
  EXPECT_EQ(info.sockets, 4);
  EXPECT_EQ(info.numa_nodes, 8);
  EXPECT_EQ(info.cores, 16);
  EXPECT_EQ(info.threads, 32);
  EXPECT_EQ(info.gpus, 6);
  EXPECT_EQ(info.nics, 2);
  EXPECT_EQ(info.memory_bytes, uint64_t(16) << 30);
  EXPECT_EQ(sk_topo_free(topo), SK_OK);
}

TEST(TopoApi, WhatIsDumpedParsesBack) {
  sk_topo* discovered = nullptr;
  ASSERT_EQ(sk_topo_discover(&discovered), SK_OK) << sk_last_error();
  for (sk_topo* topo : {discovered, synthetic("hosts:3 cores:5 gpus:2")}) {
    const std::string text = dump(topo);
    sk_topo* again = nullptr;
    ASSERT_EQ(sk_topo_parse(text.data(), text.size(), &again), SK_OK) << sk_last_error();
    EXPECT_EQ(dump(again), text);
    EXPECT_EQ(summary(again).cores, summary(topo).cores);
    EXPECT_EQ(sk_topo_free(again), SK_OK);
    EXPECT_EQ(sk_topo_free(topo), SK_OK);
  }
}

TEST(TopoApi, XmlIsReadToo) {
  const std::string text =
      "<system version=\"1\"><cpu numaid=\"0\" affinity=\"ff\"><pci busid=\"1\">"
      "<gpu dev=\"0\" sm=\"90\"/></pci></cpu></system>";
  sk_topo* topo = nullptr;
  ASSERT_EQ(sk_topo_parse(text.data(), text.size(), &topo), SK_OK) << sk_last_error();
  EXPECT_EQ(summary(topo).gpus, 1);
  EXPECT_EQ(summary(topo).threads, 8);
  EXPECT_EQ(sk_topo_free(topo), SK_OK);
}

TEST(TopoApi, ACutDumpIsWholeUpToItsEnd) {
  sk_topo* topo = synthetic("cores:4");
  const std::string text = dump(topo);
  for (const size_t capacity : {size_t(1), size_t(2), text.size() / 2, text.size()}) {
    std::vector<char> buffer(capacity + 8, '?');
    size_t size = 0;
    EXPECT_EQ(sk_topo_dump(topo, buffer.data(), capacity, &size), SK_ERR_OUT_OF_RANGE);
    EXPECT_EQ(size, text.size());
    EXPECT_EQ(std::string(buffer.data()), text.substr(0, capacity - 1));
    EXPECT_EQ(std::string(&buffer[capacity], 8), "????????");
  }
  EXPECT_EQ(sk_topo_free(topo), SK_OK);
}

// A caller that was compiled with a shorter struct gets no byte beyond it.
TEST(TopoApi, AnOlderCallersStructIsNotOverrun) {
  sk_topo* topo = synthetic("cores:4");
  sk_topo_info info;
  std::memset(&info, 0x5a, sizeof(info));
  info.struct_size = offsetof(sk_topo_info, sockets);
  EXPECT_EQ(sk_topo_summary(topo, &info), SK_OK);
  EXPECT_EQ(info.hosts, 1);
  EXPECT_EQ(info.sockets, 0x5a5a5a5a5a5a5a5a);
  EXPECT_EQ(sk_topo_free(topo), SK_OK);
}

TEST(TopoApi, BadArgumentsGetASentenceAndChangeNothing) {
  sk_topo* topo = synthetic("cores:4");
  sk_topo* out = topo;
  const auto expect = [](sk_status status, sk_status code, const char* sentence) {
    EXPECT_EQ(status, code) << sentence;
    EXPECT_THAT(sk_last_error(), HasSubstr(sentence));
  };
  expect(sk_topo_discover(nullptr), SK_ERR_INVALID_ARGUMENT, "out_topo is NULL");
  expect(sk_topo_parse("topology 1", 10, nullptr), SK_ERR_INVALID_ARGUMENT, "out_topo is NULL");
  expect(sk_topo_parse(nullptr, 0, &out), SK_ERR_INVALID_ARGUMENT, "text is NULL");
  EXPECT_EQ(out, nullptr);
  expect(sk_topo_parse("topology 1\nnode 0 x", 19, &out), SK_ERR_INVALID_ARGUMENT,
         "line 2, column 8");
  expect(sk_topo_synthetic(nullptr, &out), SK_ERR_INVALID_ARGUMENT, "spec is NULL");
  expect(sk_topo_synthetic("cores:0", &out), SK_ERR_INVALID_ARGUMENT, "cores is \"0\"");
  expect(sk_topo_synthetic("cores:1", nullptr), SK_ERR_INVALID_ARGUMENT, "out_topo is NULL");
  expect(sk_topo_dump(topo, nullptr, 5, nullptr), SK_ERR_INVALID_ARGUMENT, "buffer is NULL");
  expect(sk_topo_dump(nullptr, nullptr, 0, nullptr), SK_ERR_BAD_HANDLE, "topology is null");
  expect(sk_topo_summary(topo, nullptr), SK_ERR_INVALID_ARGUMENT, "info is null");
  sk_topo_info info{};
  expect(sk_topo_summary(topo, &info), SK_ERR_INVALID_ARGUMENT, "struct_size is 0");
  expect(sk_topo_free(nullptr), SK_ERR_BAD_HANDLE, "topology is null");
  EXPECT_EQ(summary(topo).cores, 4);
  EXPECT_EQ(sk_topo_free(topo), SK_OK);
  expect(sk_topo_free(topo), SK_ERR_BAD_HANDLE, "was freed");
  expect(sk_topo_dump(topo, nullptr, 0, nullptr), SK_ERR_BAD_HANDLE, "was freed");
}

TEST(TopoApi, ThreadsMayShareOne) {
  sk_topo* topo = synthetic("hosts:2 cores:16");
  const std::string text = dump(topo);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 50; ++k) {
        EXPECT_EQ(dump(topo), text);
        EXPECT_EQ(sk_topo_free(synthetic("cores:2")), SK_OK);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sk_topo_free(topo), SK_OK);
}

}  // namespace
