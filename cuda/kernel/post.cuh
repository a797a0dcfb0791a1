// What a finished task tells others: its posts, and the entry of a run.
#ifndef SK_CUDA_KERNEL_POST_CUH_
#define SK_CUDA_KERNEL_POST_CUH_

#include "cuda/kernel/fetch.cuh"

namespace sk::cuda {

// Where a task's word goes, to one place with each lane. Posts and peers are the plan's, written
// before the launch, so they may be asked for while the task is under way: behind it they would be
// two loads, one for the other, between the work and those who wait for it. Nothing is told by
// that: what is told stays behind the wait for the work.
struct PostsAhead {
  struct Piece {
    uint64_t* signal;
    uint32_t add;
    Entry* entry;  // This rank's at the peer, in this run.
  };
  Piece pieces[ptx::kLanesHere];
};

template <typename T>
SK_DEVICE T* load_pointer(T* const* at) {
  return reinterpret_cast<T*>(ptx::load_constant(reinterpret_cast<const uint64_t*>(at)));
}
SK_DEVICE PostsAhead::Piece place_of(const Image& image, const PlacedPost* post) {
  const uint32_t rank = ptx::load_constant(&post->rank);
  uint64_t* const signals = load_pointer(&image.all[rank].signals);
  return {signals + ptx::load_constant(&post->place), ptx::load_constant(&post->add), nullptr};
}
SK_DEVICE Entry* entry_at(const Image& image, const uint32_t* peer, uint64_t run) {
  return load_pointer(&image.all[ptx::load_constant(peer)].entries) + run % 2 * image.world_size +
         image.rank;
}

SK_DEVICE PostsAhead ask_for_posts(const Image& image, const FetchedTask& task) {
  PostsAhead ahead;
  for (uint32_t l = 0; l < ptx::kLanesHere; ++l) {
    const uint32_t lane = ptx::lane(l);
    PostsAhead::Piece& piece = ahead.pieces[l] = {};
    if (lane < task.task.post_count)
      piece = place_of(image, image.posts + task.task.first_post + lane);
    if (task.task.op == TaskOp::kEnter && lane < image.peer_count)
      piece.entry = entry_at(image, image.peers + lane, task.run);
  }
  return ahead;
}

// By the post warp, which has waited for all that worked on the task: their writes come before the
// adds, for a release covers what the releasing thread has seen through a barrier.
SK_DEVICE void post_all(const Image& image, const Task& task, const PostsAhead& ahead) {
  for (uint32_t l = 0; l < ptx::kLanesHere; ++l) {
    const uint32_t lane = ptx::lane(l);
    PostsAhead::Piece piece = ahead.pieces[l];
    for (uint32_t i = lane; i < task.post_count; i += ptx::kLanes) {
      if (i != lane) piece = place_of(image, image.posts + task.first_post + i);
      ptx::add_release_gpu(piece.signal, piece.add);
    }
  }
}

// Into the peers' entries of this run's parity: a peer still in the run before reads the others,
// and one two runs behind cannot be, for this rank has ended the run between only with its entry.
SK_DEVICE void enter(const Worker& worker, uint64_t run, const PostsAhead& ahead) {
  const Image& image = worker.role.image;
  for (uint32_t l = 0; l < ptx::kLanesHere; ++l) {
    const uint32_t lane = ptx::lane(l);
    for (uint32_t i = lane; i < image.peer_count; i += ptx::kLanes) {
      Entry& entry = i == lane ? *ahead.pieces[l].entry : *entry_at(image, image.peers + i, run);
      ptx::store_relaxed_sys(&entry.fingerprint, image.fingerprint);
      for (uint32_t o = 0; o < kOperandMax; ++o) {
        const auto address =
            reinterpret_cast<uint64_t>(worker.args.operands[worker.role.rank_index][o]);
        ptx::store_relaxed_sys(&entry.operand[o], address);
      }
      ptx::store_release_gpu(&entry.seq, run + 1);
    }
  }
}

// The last block of a rank to end its queue ends the run. The count publishes nothing, so it is not
// held up by the stores of the block's last tile: the end of the launch is what publishes those. A
// block has used the run's number long before it counts here, in the same warp or on the other side
// of the ring's barriers, so nobody of this launch reads the number that follows; the next launch
// does, and begins behind this one.
SK_DEVICE void end_queue(const Image& image, uint64_t run) {
  if (ptx::add_relaxed_gpu(&image.state->ended, 1) + 1 != image.queue_count) return;
  ptx::store_relaxed_gpu(&image.state->ended, 0);
  ptx::store_relaxed_sys(&image.state->run, run + 1);
}

}  // namespace sk::cuda

#endif  // SK_CUDA_KERNEL_POST_CUH_
