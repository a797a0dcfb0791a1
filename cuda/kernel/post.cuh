// What a finished task tells others: its posts, and the entry of a run.
#ifndef SK_CUDA_KERNEL_POST_CUH_
#define SK_CUDA_KERNEL_POST_CUH_

#include "cuda/kernel/fetch.cuh"

namespace sk::cuda {

// By the post warp, which has waited for all that worked on the task: their writes come before the
// adds, for a release covers what the releasing thread has seen through a barrier.
SK_DEVICE void post_all(const Image& image, const Task& task) {
  for (uint32_t l = 0; l < ptx::kLanesHere; ++l) {
    const uint32_t lane = ptx::lane(l);
    for (uint32_t i = lane; i < task.post_count; i += ptx::kLanes) {
      const PlacedPost post = image.posts[task.first_post + i];
      ptx::add_release_sys(&image.all[post.rank].signals[post.place], post.add);
    }
  }
}

// Into the peers' entries of this run's parity: a peer still in the run before reads the others,
// and one two runs behind cannot be, for this rank has ended the run between only with its entry.
SK_DEVICE void enter(const Worker& worker, uint64_t run) {
  const Image& image = worker.role.image;
  for (uint32_t l = 0; l < ptx::kLanesHere; ++l) {
    const uint32_t lane = ptx::lane(l);
    for (uint32_t i = lane; i < image.peer_count; i += ptx::kLanes) {
      Entry& entry = image.all[image.peers[i]].entries[run % 2 * image.world_size + image.rank];
      ptx::store_relaxed_sys(&entry.fingerprint, image.fingerprint);
      for (uint32_t o = 0; o < kOperandMax; ++o) {
        const auto address =
            reinterpret_cast<uint64_t>(worker.args.operands[worker.role.rank_index][o]);
        ptx::store_relaxed_sys(&entry.operand[o], address);
      }
      ptx::store_release_sys(&entry.seq, run + 1);
    }
  }
}

// The last block of a rank to end its queue ends the run.
SK_DEVICE void end_queue(const Image& image, uint64_t run) {
  if (ptx::add_acq_rel_gpu(&image.state->ended, 1) + 1 != image.queue_count) return;
  image.state->ended = 0;
  ptx::store_relaxed_sys(&image.state->run, run + 1);
}

}  // namespace sk::cuda

#endif  // SK_CUDA_KERNEL_POST_CUH_
