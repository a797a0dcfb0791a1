// The one file that names concrete transports and executors.
#include "cuda/exec/executor.h"
#include "lib/api/objects.h"
#include "lib/base/flag.h"
#include "lib/base/lasting.h"
#include "lib/exec/cpu/executor.h"
#include "lib/exec/cpu/tile/cpu_features.h"
#include "transport/bootstrap/env.h"
#include "transport/bootstrap/secret.h"
#include "transport/shm/shm.h"
#include "transport/tcp/tcp.h"
#include "transport/tls/tls.h"

namespace sk::api {
namespace {

GemmTiles gemm_tiles(DType dtype, int64_t m, int64_t n, int64_t k, uint32_t parts,
                     uint32_t kernel_sets) {
  const cpu::GemmTarget target = cpu::gemm_target(dtype, m, n, k, parts, kernel_sets);
  return {target.tile_m, target.tile_n, target.packed_bytes};
}

bool is_encrypted() { return process_env("SK_NET_TLS") != "0"; }

const char* transport_name(bool one_host) {
  if (one_host) return "shm";
  return is_encrypted() ? "shm and tcp within TLS" : "shm and tcp, not encrypted";
}

const char* far_link() { return is_encrypted() ? "tls" : "tcp"; }

Backend named_parts() {
  cpu::choose_kernels();
  Backend backend;
  backend.kernel_set_name = cpu::cpu_isa_name(cpu::cpu_isa());
  backend.transport_name = transport_name;
  backend.far_link = far_link;
  backend.memory_room = [] { return memory_room(""); };
  return backend;
}

Result<std::unique_ptr<stream::Pipe>> within_tls(std::unique_ptr<stream::Pipe> pipe, bool dials,
                                                 std::span<const std::byte> meeting) {
  SK_ASSIGN_OR_RETURN(const auto key, tls::derive_key(meeting, "libsk hosts", {}));
  return tls::make_tls(std::move(pipe), dials ? tls::Side::kDials : tls::Side::kAccepts, key,
                       "libsk hosts");
}

// As the environment says.
Result<TcpConfig> read_far_config() {
  TcpConfig config;
  config.networks = process_env("SK_NET").value_or("");
  config.ports = process_env("SK_PORT_RANGE").value_or("");
  SK_ASSIGN_OR_RETURN(config.silence_ms,
                      read_silence_ms(process_env("SK_NET_SILENCE_S").value_or("")));
  SK_ASSIGN_OR_RETURN(config.eager_ranks,
                      read_eager_ranks(process_env("SK_NET_EAGER_RANKS").value_or("")));
  SK_ASSIGN_OR_RETURN(config.secret, read_job_secret(process_env));
  const std::string tls = process_env("SK_NET_TLS").value_or("1");
  SK_ASSIGN_OR_RETURN(const bool encrypted, parse_flag("SK_NET_TLS", tls));
  if (encrypted) config.wrap = within_tls;
  return config;
}

// Ranks of several hosts: shared memory within each, TCP between them.
Result<std::unique_ptr<Endpoint>> connect_hosts(Bootstrap& bootstrap, const SegmentLayout& layout,
                                                int64_t timeout_ns) {
  SK_ASSIGN_OR_RETURN(TcpConfig config, read_far_config());
  config.timeout_ns = timeout_ns;
  config.local = [timeout_ns](Bootstrap& all, const SegmentLayout& of_all) {
    return connect_shm(all, of_all,
                       {.timeout_ns = timeout_ns, .hide_mapped = true, .one_of_several = true});
  };
  return connect_tcp(bootstrap, layout, config);
}

Result<std::unique_ptr<Endpoint>> connect(Bootstrap& bootstrap, const SegmentLayout& layout,
                                          int64_t timeout_ns, bool put_only) {
  if (!bootstrap.one_host()) return connect_hosts(bootstrap, layout, timeout_ns);
  return connect_shm(bootstrap, layout, {.timeout_ns = timeout_ns, .hide_mapped = put_only});
}

Backend make_backend() {
  Backend backend = named_parts();
  backend.check = cpu::check_environment;
  backend.connect = connect;
  backend.make_executor = [](Endpoint& endpoint, Ledger& ledger, uint32_t workers, bool shared) {
    return cpu::make_cpu_executor(endpoint, ledger, {.workers = workers, .shared_cores = shared});
  };
  backend.staging_bytes = cpu::staging_bytes();
  backend.kernel_set = cpu::kernel_set;
  backend.gemm_tiles = gemm_tiles;
  backend.pack = cpu::pack_weights;
  backend.open_gpu = cuda::open_gpu;
  return backend;
}

}  // namespace

const Backend& backend() {
  static Lasting<Backend> all(make_backend());
  return *all;
}

}  // namespace sk::api
