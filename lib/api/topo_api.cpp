// Topologies: the thin C shell over lib/topo.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "lib/api/guard.h"
#include "lib/topo/graph.h"
#include "lib/topo/host.h"
#include "lib/topo/import.h"
#include "lib/topo/synthetic.h"
#include "lib/topo/text.h"
#include "sk/topo.h"

// Only its address is used: the graph is in the table, so a freed handle is refused, not followed.
struct sk_topo {
  char unused;
};

namespace {

using sk::error;
using sk::Result;
using sk::Status;
using sk::api::guard;
using sk::topo::Graph;
using GraphPointer = std::shared_ptr<const Graph>;

// The handles that are alive. A call keeps its graph while another thread frees the handle.
class Table {
 public:
  sk_topo* add(Graph graph) {
    auto handle = std::make_unique<sk_topo>();
    const std::lock_guard lock(mutex_);
    graphs_.emplace(handle.get(), std::make_shared<const Graph>(std::move(graph)));
    return handle.release();
  }
  Result<GraphPointer> get(const sk_topo* handle) {
    const std::lock_guard lock(mutex_);
    const auto it = graphs_.find(handle);
    if (it != graphs_.end()) return it->second;
    return error(SK_ERR_BAD_HANDLE, "topo is {}",
                 handle == nullptr ? "NULL" : "no topology, or one that was freed");
  }
  Status remove(const sk_topo* handle) {
    SK_ASSIGN_OR_RETURN(const GraphPointer graph, get(handle));
    const std::lock_guard lock(mutex_);
    if (graphs_.erase(handle) == 1) delete handle;
    return {};
  }

 private:
  std::mutex mutex_;
  std::map<const sk_topo*, GraphPointer> graphs_;
};
Table& table() {
  static Table* const instance = new Table;  // Never destroyed: calls may come during exit.
  return *instance;
}

template <typename T>
Status require(const char* name, const T* pointer) {
  if (pointer != nullptr) return {};
  return error(SK_ERR_INVALID_ARGUMENT, "{} is NULL", name);
}

// Runs `make`, which returns a Result<Graph>, and hands out what it made.
template <typename Make>
sk_status create(sk_topo** out_topo, Make&& make) {
  return guard([&]() -> Status {
    SK_RETURN_IF_ERROR(require("out_topo", out_topo));
    *out_topo = nullptr;
    SK_ASSIGN_OR_RETURN(Graph graph, make());
    *out_topo = table().add(std::move(graph));
    return {};
  });
}

Status copy_text(const std::string& text, char* buffer, size_t capacity, size_t* out_size) {
  if (out_size != nullptr) *out_size = text.size();
  if (capacity > 0) {
    const size_t bytes = std::min(capacity - 1, text.size());
    std::memcpy(buffer, text.data(), bytes);
    buffer[bytes] = '\0';
  }
  if (capacity > text.size()) return {};
  return error(SK_ERR_OUT_OF_RANGE, "capacity is {}: the text needs {}", capacity, text.size() + 1);
}

Status fill(const Graph& graph, sk_topo_info* info) {
  const uint32_t size = info->struct_size;
  if (size < sizeof(uint32_t) || size > 4096) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "info->struct_size is {}: it must be sizeof(sk_topo_info)", size);
  }
  const auto s = sk::topo::summarize(graph);
  const sk_topo_info all = {size,    0,         s.hosts, s.sockets, s.numa_nodes,
                            s.cores, s.threads, s.gpus,  s.nics,    s.memory_bytes};
  std::memcpy(info, &all, std::min<size_t>(size, sizeof(all)));
  return {};
}

}  // namespace

extern "C" {

sk_status sk_topo_discover(sk_topo** out_topo) noexcept {
  return create(out_topo, [] { return sk::topo::discover(); });
}

sk_status sk_topo_parse(const char* text, size_t length, sk_topo** out_topo) noexcept {
  return create(out_topo, [&]() -> Result<Graph> {
    SK_RETURN_IF_ERROR(require("text", text));
    return sk::topo::from_any({text, length});
  });
}

sk_status sk_topo_synthetic(const char* spec, sk_topo** out_topo) noexcept {
  return create(out_topo, [&]() -> Result<Graph> {
    SK_RETURN_IF_ERROR(require("spec", spec));
    return sk::topo::synthesize(spec);
  });
}

sk_status sk_topo_dump(const sk_topo* topo, char* buffer, size_t capacity,
                       size_t* out_size) noexcept {
  return guard([&]() -> Status {
    SK_ASSIGN_OR_RETURN(const GraphPointer graph, table().get(topo));
    if (capacity > 0) SK_RETURN_IF_ERROR(require("buffer", buffer));
    return copy_text(sk::topo::dump(*graph), buffer, capacity, out_size);
  });
}

sk_status sk_topo_summary(const sk_topo* topo, sk_topo_info* info) noexcept {
  return guard([&]() -> Status {
    SK_ASSIGN_OR_RETURN(const GraphPointer graph, table().get(topo));
    SK_RETURN_IF_ERROR(require("info", info));
    return fill(*graph, info);
  });
}

sk_status sk_host_facts(char* buffer, size_t capacity, size_t* out_size) noexcept {
  return guard([&]() -> Status {
    if (capacity > 0) SK_RETURN_IF_ERROR(require("buffer", buffer));
    return copy_text(sk::topo::host_facts({}), buffer, capacity, out_size);
  });
}

sk_status sk_topo_free(sk_topo* topo) noexcept {
  return guard([&] { return table().remove(topo); });
}

}  // extern "C"
