// What a communicator knows for those that go on without some of its ranks.
#include <algorithm>

#include "lib/comm/cpu_communicator.h"

namespace sk {

// The name of those that are left stays the same however often ranks are lost: where the last step
// of a meeting fails on some ranks alone, all of them meet again.
void CpuCommunicator::remember_given(const Config& config, const Bootstrap& bootstrap,
                                     uint64_t name, bool one_process_space) {
  given_ = config;
  given_.cancel_fd = -1;
  given_.bootstrap.cancel = nullptr;
  given_.bootstrap.gone = nullptr;
  given_.bootstrap.leave_out = nullptr;
  for (int rank = 0; rank < bootstrap.world_size(); ++rank)
    launched_as_.push_back(bootstrap.launched_as(rank));
  given_.bootstrap.rank = launched_as_[size_t(bootstrap.rank())];
  given_.bootstrap.world_size = bootstrap.launched_count();
  if (config.bootstrap.gone) return;
  const std::string& of = config.bootstrap.name;
  given_.bootstrap.name =
      fmt::format("{}{}what is left of {:016x}", of, of.empty() ? "" : ": ", name);
  // Containers that share a host's network, and no PIDs, do not find each other at its names.
  given_.bootstrap.met_on_one_host = bootstrap.one_host() && one_process_space;
}

Result<Communicator::Config> CpuCommunicator::for_survivors(int64_t meeting_ns) {
  const int32_t kind = given_.bootstrap.kind;
  if (kind != SK_BOOTSTRAP_AUTO && kind != SK_BOOTSTRAP_ENV) {
    return error(SK_ERR_UNSUPPORTED,
                 "this communicator was made with {}: only ranks that a launcher started can meet "
                 "again without some of them (SK_BOOTSTRAP_AUTO, SK_BOOTSTRAP_ENV)",
                 kind == SK_BOOTSTRAP_THREADS ? "SK_BOOTSTRAP_THREADS" : "SK_BOOTSTRAP_CALLBACK");
  }
  if (left_out_.contains(given_.bootstrap.rank)) {
    return error(SK_ERR_TRANSPORT,
                 "the others have gone on without rank {}, which was lost to them",
                 given_.bootstrap.rank);
  }
  Config config = given_;
  config.bootstrap.timeout_ns = meeting_ns;
  config.lineage = {.parent = name_,
                    .grandparent = given_.lineage.parent,
                    .has_sibling = children_.use_count() > 1,
                    .held = children_};
  config.bootstrap.leave_out = [this](int launched_as) { left_out_.insert(launched_as); };
  config.bootstrap.gone = [this](int launched_as) {
    if (left_out_.contains(launched_as)) return Gone::kYes;
    const auto at = std::lower_bound(launched_as_.begin(), launched_as_.end(), launched_as);
    if (at == launched_as_.end() || *at != launched_as) return Gone::kYes;
    const auto peer = uint32_t(at - launched_as_.begin());
    if (peer == rank() || !endpoint_->gone(peer)) return Gone::kNo;
    return endpoint_->unreachable(peer) ? Gone::kUnreachable : Gone::kYes;
  };
  return config;
}

}  // namespace sk
