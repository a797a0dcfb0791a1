// Topologies: the thin C shell over lib/topo.
#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>

#include "lib/api/guard.h"
#include "lib/api/handles.h"
#include "lib/base/fork_lock.h"
#include "lib/base/structs.h"
#include "lib/topo/graph.h"
#include "lib/topo/host.h"
#include "lib/topo/import.h"
#include "lib/topo/synthetic.h"
#include "lib/topo/text.h"
#include "sk/topo.h"

namespace {

using sk::error;
using sk::Result;
using sk::Status;
using sk::api::guard;
using sk::topo::Graph;

// A call keeps its graph while another thread frees the handle.
constinit sk::api::HandleTable<const Graph, sk::api::HandleKind::kTopo> topologies;

// hwloc asks libudev, which fills a key of the whole process at its first use without a lock. Who
// waits for a look's end holds the door, and so comes before the next look of the same thread.
sk::ForkLock door, one_at_a_time;

void begin_look() {
  const std::lock_guard next(door);
  one_at_a_time.lock();
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
    SK_ASSIGN_OR_RETURN(void* made,
                        topologies.add(std::make_unique<const Graph>(std::move(graph))));
    *out_topo = static_cast<sk_topo*>(made);
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

sk_topo_info info_of(const Graph& graph) {
  const auto s = sk::topo::summarize(graph);
  return {0,       0,         s.hosts, s.sockets, s.numa_nodes,
          s.cores, s.threads, s.gpus,  s.nics,    s.memory_bytes};
}

}  // namespace

extern "C" {

sk_status sk_topo_discover(sk_topo** out_topo) noexcept {
  return create(out_topo, [] {
    begin_look();
    const std::unique_lock look(one_at_a_time, std::adopt_lock);
    return sk::topo::discover();
  });
}

sk_status sk_topo_parse(const char* text, size_t length, sk_topo** out_topo) noexcept {
  return create(out_topo, [&]() -> Result<Graph> {
    SK_RETURN_IF_ERROR(require("text", text));
    SK_RETURN_IF_ERROR(sk::api::check_text("text", text, length));
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
    SK_ASSIGN_OR_RETURN(const auto graph, topologies.pin_here(topo));
    if (capacity > 0) SK_RETURN_IF_ERROR(require("buffer", buffer));
    return copy_text(sk::topo::dump(*graph), buffer, capacity, out_size);
  });
}

sk_status sk_topo_summary(const sk_topo* topo, sk_topo_info* info) noexcept {
  return guard([&]() -> Status {
    SK_ASSIGN_OR_RETURN(const auto graph, topologies.pin_here(topo));
    SK_RETURN_IF_ERROR(sk::check_struct("sk_topo_info", "info", info));
    sk::fill_struct(info_of(*graph), info);
    return {};
  });
}

sk_status sk_host_facts(char* buffer, size_t capacity, size_t* out_size) noexcept {
  return guard([&]() -> Status {
    if (capacity > 0) SK_RETURN_IF_ERROR(require("buffer", buffer));
    return copy_text(sk::topo::host_facts({}), buffer, capacity, out_size);
  });
}

sk_status sk_topo_free(sk_topo* topo) noexcept {
  return guard([&]() -> Status {
    SK_RETURN_IF_ERROR(topologies.check_owner(topo));
    return std::move(topologies.remove(topo).status());
  });
}

}  // extern "C"
