// What the ranks of a communicator agree on before any of them makes a plan.
//
// Each rank knows its own cores, kernels and memory; a plan is made for what all of them have. So
// all tell each other, and every rank makes the same of the same facts.
#ifndef SK_LIB_COMM_AGREEMENT_H_
#define SK_LIB_COMM_AGREEMENT_H_

#include <span>
#include <type_traits>
#include <vector>

#include "lib/base/cpu_limit.h"
#include "lib/comm/limits.h"
#include "transport/bootstrap/bootstrap.h"

namespace sk {

// What a rank tells the others. A rank on a GPU says something of another length.
struct RankFacts {
  // Of the library: equal numbers plan alike.
  uint32_t version = 0;
  uint32_t workers = 0;     // As asked for; 0: what falls to it of the cores.
  uint32_t kernel_set = 0;  // Backend::kernel_set().
  uint32_t put_only = 0;
  uint64_t drawn = 0;                    // At random: rank 0's names the communicator.
  uint64_t parent = 0, grandparent = 0;  // Communicator::Lineage.
  uint32_t has_sibling = 0;
  uint64_t memory_bytes = 0;    // Of its host.
  uint64_t heap_bytes_max = 0;  // As asked for; 0: what the host has.
  uint64_t cache_bytes = 0;     // shared_cache_bytes().
  // What its executor takes of its segment at once (staging_in() of it), and what is left where it
  // draws from (world_memory.h): of its host and of its control group, whose limit `group_limit`
  // names, with a NUL.
  uint64_t staging_bytes = 0;
  uint64_t machine_left = UINT64_MAX, group_left = UINT64_MAX;
  char group_limit[96] = {};
  CpuMask cpus;        // It may run on, as long as
  CpuLimit cpu_limit;  // its control group lets it.
};
static_assert(std::is_trivially_copyable_v<RankFacts>);

struct Agreement {
  // All but what is known once the ranks are connected: mapped and put_bytes_max.
  Target target;
  uint64_t memory_bytes = 0, heap_bytes_max = 0;  // The least.
  uint32_t kernel_sets = 0;                       // Bit i: some rank has kernel set i.
  bool put_only = false;                          // Some rank asks for it.
  uint64_t name = 0;                              // No other communicator's; not 0.
};

// The same on all ranks; `all` and `host_of` by rank. SK_ERR_DESYNC names a rank whose library is
// of another version, or that shrinks another communicator; SK_ERR_NO_MEMORY says what the world
// lacks.
Result<Agreement> agree_on(std::span<const RankFacts> all, std::span<const int> host_of);

// Gathers and agrees.
Result<Agreement> agree_on_target(Bootstrap& bootstrap, const RankFacts& mine, int64_t timeout_ns);

// What a rank can say of all its peers only once it is connected to them.
struct LinkFacts {
  bool mapped = true;
  uint32_t host = 0;           // The least rank that it reaches without crossing, or is.
  uint64_t process_space = 0;  // own_process_space().
  uint64_t put_bytes_max = UINT64_MAX;
  // Why this rank cannot go on: fail().
  int32_t code = SK_OK;
  char why[200] = {};
  void fail(const Status& status);
};
static_assert(std::is_trivially_copyable_v<LinkFacts>);

struct Links {
  bool mapped = true;
  uint64_t put_bytes_max = UINT64_MAX;
  std::vector<uint32_t> host_of;   // Target::host_of.
  bool one_process_space = false;  // PIDs mean the same processes to all.
};
// What holds for all ranks; where one cannot go on, none does, and all say why it cannot.
Result<Links> agree_on_links(Bootstrap& bootstrap, const LinkFacts& mine, int64_t timeout_ns);

}  // namespace sk

#endif  // SK_LIB_COMM_AGREEMENT_H_
