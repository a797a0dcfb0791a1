// Tasks from a plan: one queue of one rank's image.
#ifndef SK_CUDA_KERNEL_PLAN_SOURCE_CUH_
#define SK_CUDA_KERNEL_PLAN_SOURCE_CUH_

#include "cuda/kernel/interpreter.cuh"
#include "cuda/kernel/post.cuh"

namespace sk::cuda {

template <bool pair>
class PlanSource {
 public:
  // `role` is read behind the block's first meeting.
  SK_DEVICE PlanSource(const LaunchArgs& args, const BlockRole& role)
      : worker_{args, role}, seen_(is_looking() ? ptx::load_relaxed_sys(args.abort) : 0) {}

  SK_DEVICE void fetch(Ring& ring) const { fetch_queue<pair>(worker_, ring); }
  SK_DEVICE void look() const {
    if (is_looking()) tell_begun(worker_, seen_);
  }
  SK_DEVICE bool traced() const { return times().count != 0; }

  // By the post warp, as all that follows.
  using Ahead = PostsAhead;
  SK_DEVICE Ahead ask(const FetchedTask& task) const {
    if constexpr (pair) {
      if (!leads()) return {};
    }
    return ask_for_posts(worker_.role.image, task);
  }

  // Behind all writes of the task.
  SK_DEVICE void finish(Ring& ring, uint32_t n, const FetchedTask& task, bool able,
                        const Ahead& ahead) const {
    if constexpr (pair) {
      if (!leads()) return tell_done(ring, n);
      hear_done(ring, n);
    }
    const Image& image = worker_.role.image;
    if (able) {
      if (task.task.op == TaskOp::kEnter) enter(worker_, task.run, ahead);
      post_all(image, task.task, ahead);
    } else if (ptx::one_lane()) {
      fail(worker_.args, Verdict::kBadTask,
           {0, image.rank, worker_.role.queue, task.index, image.rank, 0, 0,
            uint64_t(task.task.op)});
    }
    if (task.index < times().count && ptx::one_lane())
      times().first[task.index] = {task.wait_ns, task.start_ns, ptx::timer_ns()};
  }

  SK_DEVICE void end() const {
    if constexpr (pair) {
      if (!leads()) return;
    }
    const uint32_t verdict = ptx::load_relaxed_sys(&worker_.args.control->verdict);
    if (ptx::one_lane() && verdict == uint32_t(Verdict::kRunning))
      end_queue(worker_.role.image, ptx::load_relaxed_sys(&worker_.role.image.state->run));
  }

 private:
  // A launch parameter: without a trace a task costs a compare with a constant.
  SK_DEVICE const TimesPlace& times() const { return worker_.args.times[worker_.role.rank_index]; }

  SK_DEVICE static bool is_looking() { return ptx::block() == 0 && ptx::warp() == kLookWarp; }

  const Worker worker_;
  const uint32_t seen_;  // Asked for before the block is ready, for it comes from far away.
};

template <typename Ops>
SK_DEVICE void run_plan(const LaunchArgs& args, const TensorMap* views = nullptr) {
  BlockRole& role = reinterpret_cast<BlockShared<Ops>*>(ptx::shared_memory())->ring.role;
  if (ptx::warp() == kFetchWarp)
    copy_words(role, args.blocks[ptx::block() / (Ops::kPair ? kPairBlocks : 1)]);
  run_block<Ops>(PlanSource<Ops::kPair>(args, role), views);
}
template <typename Ops>
SK_DEVICE void run_plan(const BoxLaunchArgs& args) {
  run_plan<Ops>(args.plan, args.views);
}

}  // namespace sk::cuda

#endif  // SK_CUDA_KERNEL_PLAN_SOURCE_CUH_
