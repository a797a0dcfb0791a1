// Topologies: what the machines look like.
#include "sk/topo.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <memory>
#include <string>

#include "bindings.h"
#include "text.h"

namespace nb = nanobind;

namespace sk::python {
namespace {

class Topo {
 public:
  explicit Topo(sk_topo* topo) : topo_(topo) {}
  ~Topo() { sk_topo_free(topo_); }
  Topo(const Topo&) = delete;
  Topo& operator=(const Topo&) = delete;

  std::string dump() const {
    return text_of([&](char* buffer, size_t capacity, size_t* size) {
      return sk_topo_dump(topo_, buffer, capacity, size);
    });
  }

  nb::dict summary() const {
    sk_topo_info info = {};
    info.struct_size = sizeof info;
    check(sk_topo_summary(topo_, &info));
    nb::dict out;
    out["hosts"] = info.hosts;
    out["sockets"] = info.sockets;
    out["numa_nodes"] = info.numa_nodes;
    out["cores"] = info.cores;
    out["threads"] = info.threads;
    out["gpus"] = info.gpus;
    out["nics"] = info.nics;
    out["memory_bytes"] = info.memory_bytes;
    return out;
  }

 private:
  sk_topo* topo_;
};

std::unique_ptr<Topo> discover() {
  sk_topo* topo = nullptr;
  check(sk_topo_discover(&topo));
  return std::make_unique<Topo>(topo);
}

std::unique_ptr<Topo> parse(const std::string& text) {
  sk_topo* topo = nullptr;
  check(sk_topo_parse(text.data(), text.size(), &topo));
  return std::make_unique<Topo>(topo);
}

std::unique_ptr<Topo> synthetic(const std::string& spec) {
  sk_topo* topo = nullptr;
  check(sk_topo_synthetic(spec.c_str(), &topo));
  return std::make_unique<Topo>(topo);
}

std::string facts() {
  return text_of([](char* buffer, size_t capacity, size_t* size) {
    return sk_host_facts(buffer, capacity, size);
  });
}

}  // namespace

void bind_topo(nb::module_& module) {
  nb::class_<Topo>(module, "Topo").def("dump", &Topo::dump).def("summary", &Topo::summary);
  module.def("topo_discover", &discover);
  module.def("host_facts", &facts);
  module.def("topo_parse", &parse);
  module.def("topo_synthetic", &synthetic);
}

}  // namespace sk::python
