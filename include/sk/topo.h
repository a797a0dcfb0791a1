/* Topology: what the machines look like.
 *
 * A topology is a graph of machines, sockets, NUMA nodes, caches, cores, GPUs, NICs and switches
 * with latency and bandwidth of the links between them: of this machine, from a file, or of a
 * machine that nobody has to own. It is immutable, so threads may share one. */
#ifndef SK_TOPO_H_
#define SK_TOPO_H_

#include "sk/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Opaque. Whoever makes one releases it with sk_topo_free(). */
typedef struct sk_topo sk_topo;

/** This machine: cores and memory as hwloc sees them, GPUs and NICs on the PCI bus. Starts no GPU
 *  runtime. Where the machine does not tell a link's speed, it is a typical one.
 *  @return SK_OK, SK_ERR_INVALID_ARGUMENT, SK_ERR_SYSTEM, SK_ERR_NO_MEMORY. @threads Any.
 *  @since 0.1 */
SK_NODISCARD SK_API sk_status sk_topo_discover(sk_topo** out_topo) SK_NOEXCEPT;

/** Reads a topology from `length` bytes: text of sk_topo_dump(), hwloc's XML (lstopo), or NCCL's
 *  XML (NCCL_TOPO_DUMP_FILE); which of them is told from the text. It need not end in NUL.
 *  @return SK_OK; SK_ERR_INVALID_ARGUMENT with line and column; SK_ERR_NO_MEMORY. @threads Any.
 *  @since 0.1 */
SK_NODISCARD SK_API sk_status sk_topo_parse(const char* text, size_t length,
                                            sk_topo** out_topo) SK_NOEXCEPT;

/** A machine by its numbers, "hosts:2 numa:2 cores:8 gpus:4 nics:2": words in any order, per host
 *  but for hosts; also sockets, threads (per core), memory (GiB per NUMA node).
 *  @return SK_OK; SK_ERR_INVALID_ARGUMENT with the column; SK_ERR_NO_MEMORY. @threads Any.
 *  @since 0.1 */
SK_NODISCARD SK_API sk_status sk_topo_synthetic(const char* spec, sk_topo** out_topo) SK_NOEXCEPT;

/** Writes the topology as text, which sk_topo_parse() reads back to the same graph. `*out_size`
 *  gets the length without the NUL, so a first call may pass capacity 0 (and then NULL).
 *  @return SK_OK, or SK_ERR_OUT_OF_RANGE when `capacity` was too small (the text is cut).
 *  @threads Any. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_topo_dump(const sk_topo* topo, char* buffer, size_t capacity,
                                           size_t* out_size) SK_NOEXCEPT;

/** How many of what there are. 0 where the source does not tell. */
typedef struct sk_topo_info {
  uint32_t struct_size; /**< sizeof(sk_topo_info) where the caller was compiled. */
  int32_t reserved;     /**< Set to 0. */
  int64_t hosts;
  int64_t sockets;
  int64_t numa_nodes;
  int64_t cores;
  int64_t threads; /**< Hardware threads. */
  int64_t gpus;
  int64_t nics;
  uint64_t memory_bytes; /**< Of all NUMA nodes. */
} sk_topo_info;

/** @threads Any. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_topo_summary(const sk_topo* topo, sk_topo_info* info) SK_NOEXCEPT;

/** What a person asks of a machine first, as a JSON object: "host", "cpu", "cores" (hardware
 * threads that this process may use), "memory_bytes", "gpus" (each with "name" and "memory_bytes"),
 *  "driver" and "cuda" (versions of NVIDIA's driver and of the newest CUDA it runs). What is not
 *  known is "" or 0. Starts no GPU runtime. `*out_size` as in sk_topo_dump().
 *  @return SK_OK; SK_ERR_OUT_OF_RANGE when `capacity` was too small; SK_ERR_INVALID_ARGUMENT.
 *  @threads Any. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_host_facts(char* buffer, size_t capacity,
                                            size_t* out_size) SK_NOEXCEPT;

/** @return SK_OK or SK_ERR_BAD_HANDLE. @threads Any; calls that use it in other threads end well.
 *  @since 0.1 */
SK_API sk_status sk_topo_free(sk_topo* topo) SK_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif /* SK_TOPO_H_ */
