// `%info`: what the ranks said of their machines, as one table.
#ifndef SK_TOOLS_SK_KERNEL_MAGIC_FACTS_H_
#define SK_TOOLS_SK_KERNEL_MAGIC_FACTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "sk/exec.h"
#include "tools/sk_kernel/table.h"
#include "tools/sk_kernel/wire.h"

namespace sk::kernel {

struct RankFacts {
  std::string ranks;  // "0-3": they all said the same.
  Json facts;
};

// Takes up one display of the action "facts"; a clear takes back what came before.
void collect(std::vector<RankFacts>& facts, const sk_event& event);

// A column for each group of ranks. Facts may lack any field and have it of any type.
Table facts_table(const std::vector<RankFacts>& facts, int32_t world_size);

}  // namespace sk::kernel

#endif  // SK_TOOLS_SK_KERNEL_MAGIC_FACTS_H_
