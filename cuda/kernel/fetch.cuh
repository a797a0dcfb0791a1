// The fetching warp: walks one queue, waits until a task may start, and puts it into the ring with
// all addresses resolved, up to kRingSlots tasks ahead of those that do them.
//
// A task may start once its waits are met, whatever the tasks before it do (rule 2 of task.h), so
// waiting for the next task goes on beside the work on this one.
#ifndef SK_CUDA_KERNEL_FETCH_CUH_
#define SK_CUDA_KERNEL_FETCH_CUH_

#include "cuda/kernel/pair.cuh"
#include "cuda/kernel/wait.cuh"

namespace sk::cuda {

struct Worker {
  const LaunchArgs& args;
  const BlockRole& role;
};

// Copies whole 4-byte words, a lane at a time.
template <typename T>
SK_DEVICE void copy_words(T& to, const T& from) {
  auto* out = reinterpret_cast<uint32_t*>(&to);
  const auto* in = reinterpret_cast<const uint32_t*>(&from);
  for (uint32_t l = 0; l < ptx::kLanesHere; ++l)
    for (uint32_t i = ptx::lane(l); i < sizeof(T) / 4; i += ptx::kLanes)
      out[i] = ptx::load_constant(in + i);
}

// What a task is, a piece of it with each lane: all loads need nothing but its number, so they are
// under way side by side, while what came before the task is waited for.
struct Ahead {
  struct Piece {
    uint32_t word;     // Of the task, then of its record.
    uint64_t address;  // Of a TaskPlace, in this run.
    uint32_t owner;
    int32_t operand;
    PlacedWait wait;
  };
  Piece pieces[ptx::kLanesHere];
};
inline constexpr uint32_t kTaskWords = sizeof(Task) / 4, kRecordWords = sizeof(TaskRecord) / 4;
static_assert(kTaskWords + kRecordWords <= ptx::kLanes && kWaitsAheadMax <= ptx::kLanes);

SK_DEVICE Ahead ask_for(const Image& image, uint32_t index, uint64_t run) {
  const auto* const task = reinterpret_cast<const uint32_t*>(image.tasks + index);
  const auto* const record = reinterpret_cast<const uint32_t*>(image.records + index);
  const TaskPlace* const places = image.places + uint64_t(index) * image.places_per_task;
  const PlacedWait* const waits = image.waits_ahead + uint64_t(index) * image.waits_ahead_per_task;
  Ahead ahead;
  for (uint32_t l = 0; l < ptx::kLanesHere; ++l) {
    const uint32_t lane = ptx::lane(l);
    Ahead::Piece& piece = ahead.pieces[l] = {};
    piece.operand = kNoPlace;
    if (lane < kTaskWords + kRecordWords)
      piece.word =
          ptx::load_constant(lane < kTaskWords ? task + lane : record + (lane - kTaskWords));
    if (lane < image.places_per_task) {
      piece.address = ptx::load_constant(&places[lane].address[run % 2]);
      piece.owner = ptx::load_constant(&places[lane].owner);
      piece.operand = ptx::load_constant(&places[lane].operand);
    }
    if (lane < image.waits_ahead_per_task)
      piece.wait = {ptx::load_constant(&waits[lane].place), ptx::load_constant(&waits[lane].target),
                    ptx::load_constant(&waits[lane].posts_per_run)};
  }
  return ahead;
}

// The task and its record, into a slot that is free.
SK_DEVICE void put_words(FetchedTask& to, const Ahead& ahead) {
  auto* const task = reinterpret_cast<uint32_t*>(&to.task);
  auto* const record = reinterpret_cast<uint32_t*>(&to.record);
  for (uint32_t l = 0; l < ptx::kLanesHere; ++l) {
    const uint32_t lane = ptx::lane(l), word = ahead.pieces[l].word;
    if (lane < kTaskWords) {
      task[lane] = word;
    } else if (lane < kTaskWords + kRecordWords) {
      record[lane - kTaskWords] = word;
    }
  }
  ptx::sync_warp();
}

// Whether the waits of a task have been met; each lane takes some of them.
SK_DEVICE bool meet_waits(const Worker& worker, uint32_t index, const Task& task,
                          const Ahead& ahead, uint64_t run) {
  const Image& image = worker.role.image;
  bool lost = false;
  const auto meet = [&](const PlacedWait& wait) {
    const uint64_t wanted = run * wait.posts_per_run + wait.target;
    const Control what{0, image.rank, worker.role.queue, index, image.rank, wait.place, 0, 0};
    lost = !wait_until(&image.signals[wait.place], wanted, worker.args, what);
  };
  for (uint32_t l = 0; l < ptx::kLanesHere; ++l) {
    const uint32_t lane = ptx::lane(l), asked = image.waits_ahead_per_task;
    if (lane < asked && lane < task.wait_count && !lost) meet(ahead.pieces[l].wait);
    for (uint32_t i = asked + lane; i < task.wait_count && !lost; i += ptx::kLanes)
      meet(image.waits[task.first_wait + i]);
  }
  return !ptx::any(lost);
}

// Every peer has entered this run, with the same operation.
SK_DEVICE bool meet_entries(const Worker& worker, uint32_t index, uint64_t run) {
  const Image& image = worker.role.image;
  bool lost = false;
  for (uint32_t l = 0; l < ptx::kLanesHere; ++l) {
    const uint32_t lane = ptx::lane(l);
    for (uint32_t i = lane; i < image.peer_count && !lost; i += ptx::kLanes) {
      const uint32_t peer = image.peers[i];
      const Entry& entry = image.entries[run % 2 * image.world_size + peer];
      Control what{0, image.rank, worker.role.queue, index, peer, UINT32_MAX, 0, 0};
      lost = !wait_until(&entry.seq, run + 1, worker.args, what);
      if (lost || ptx::load_relaxed_sys(&entry.fingerprint) == image.fingerprint) continue;
      what.wanted = image.fingerprint;
      what.seen = ptx::load_relaxed_sys(&entry.fingerprint);
      fail(worker.args, Verdict::kDesync, what);
      lost = true;
    }
  }
  return !ptx::any(lost);
}

// What a place is in this run. A peer's operand is in its entry, which some wait of this task or
// one before it has made visible.
SK_DEVICE std::byte* address_of(const Worker& worker, uint64_t address, uint32_t owner,
                                int32_t operand, uint64_t run) {
  const Image& image = worker.role.image;
  if (operand == kWorkspacePlace) return reinterpret_cast<std::byte*>(address);
  std::byte* base = nullptr;
  if (owner == image.rank) {
    base = static_cast<std::byte*>(worker.args.operands[worker.role.rank_index][operand]);
  } else {
    const Entry& entry = image.entries[run % 2 * image.world_size + owner];
    base = reinterpret_cast<std::byte*>(ptx::load_relaxed_sys(&entry.operand[operand]));
  }
  return base == nullptr ? nullptr : base + address;
}

SK_DEVICE void resolve(const Worker& worker, FetchedTask& out, const Ahead& ahead, uint32_t index,
                       uint64_t run) {
  const Image& image = worker.role.image;
  for (uint32_t l = 0; l < ptx::kLanesHere; ++l) {
    const uint32_t lane = ptx::lane(l);
    const Ahead::Piece& piece = ahead.pieces[l];
    if (piece.operand != kNoPlace)
      out.addresses[lane] = address_of(worker, piece.address, piece.owner, piece.operand, run);
    for (uint32_t i = lane + ptx::kLanes; i < image.places_per_task; i += ptx::kLanes) {
      const TaskPlace& place = image.places[uint64_t(index) * image.places_per_task + i];
      if (place.operand == kNoPlace) break;
      out.addresses[i] =
          address_of(worker, place.address[run % 2], place.owner, place.operand, run);
    }
  }
}

inline constexpr uint64_t kRefused = uint64_t(1) << 63;  // In Control::begun.
static_assert((kOver & kRefused) != 0);

// Somebody may have given the launch up before it began: then no block begins anything, for the
// callers' memory may be used for something else. The word is the host's, and looks at it are
// answered one after the other, a microsecond each: so the launch's first block alone looks, by a
// warp that has nothing else to do, and tells the others what it has `seen`.
SK_DEVICE void tell_begun(const Worker& worker, uint32_t seen) {
  if (!ptx::one_lane()) return;
  const uint32_t rank = worker.role.image.rank;
  const uint32_t task = worker.role.tasks.first_task;
  const uint64_t run = ptx::load_relaxed_sys(&worker.role.image.state->run);
  uint64_t* const begun = &worker.args.control->begun;
  // Where the run begins nothing else is told with it, and a release would take its time.
  if (seen == 0) return ptx::store_relaxed_sys(begun, run + 1);
  fail(worker.args, Verdict::kAborted, {0, rank, worker.role.queue, task, rank, UINT32_MAX, 0, 0});
  ptx::store_release_gpu(begun, kRefused | (run + 1));
}
// One word says both that it was looked and what was seen, so a block asks memory once. Who hears
// of a refusal has acquired what was released with it, the verdict: its post warp, to which it
// comes through the ring's barriers, finds that and does not end the run. A refusal stays: later
// launches of the program hear of it at once, and the abort word stays as well. A verdict of an
// earlier launch needs no look, for whoever gave it has set the abort word.
SK_DEVICE bool hear_begun(const Worker& worker, uint64_t run) {
  bool lost = false;
  if (ptx::one_lane()) {
    const LaunchArgs& args = worker.args;
    const uint32_t rank = worker.role.image.rank;
    const uint32_t task = worker.role.tasks.first_task;
    const uint64_t begun = wait_for(&args.control->begun, run + 1, args,
                                    {0, rank, worker.role.queue, task, rank, UINT32_MAX, 0, 0});
    lost = (begun & kRefused) != 0;  // Or the launch is over.
  }
  return !ptx::any(lost);
}

// Before the first task, and where there is none: who has nothing to do must not end the run before
// its number is told. Of a pair the second block hears of its tasks from the leader.
template <bool pair>
SK_DEVICE bool may_begin(const Worker& worker, uint64_t run) {
  if constexpr (pair) {
    if (!leads()) return true;
  }
  begin_wait(At::kSignal, 0, 0);
  const bool begun = hear_begun(worker, run);
  end_wait(At::kSignal);
  return begun;
}

// What the task waits for has come; false: the run has failed, or has not `begun`. Of a pair the
// leader waits.
template <bool pair>
SK_DEVICE bool meet_start(const Worker& worker, Ring& ring, uint32_t n, uint32_t index,
                          const Task& task, const Ahead& ahead, uint64_t run, bool begun) {
  if constexpr (pair) {
    if (!leads()) return hear_start(ring, n);
  }
  begin_wait(At::kSignal, 0, 0);
  const bool going = begun && meet_waits(worker, index, task, ahead, run) &&
                     (task.op != TaskOp::kAwait || meet_entries(worker, index, run));
  end_wait(At::kSignal);
  if constexpr (pair) tell_start(ring, n, going);
  return going;
}

template <bool pair>
SK_DEVICE void fetch_queue(const Worker& worker, Ring& ring) {
  const Image& image = worker.role.image;
  const Queue queue = worker.role.tasks;
  const uint64_t run = ptx::load_relaxed_sys(&image.state->run);
  const bool traced = worker.args.times[worker.role.rank_index].count != 0;
  Ahead next{};
  if (queue.task_count > 0) next = ask_for(image, queue.first_task, run);
  const bool begun = may_begin<pair>(worker, run);
  uint32_t n = 0;
  bool going = true;
  for (; n < queue.task_count && going; ++n) {
    FetchedTask& slot = ring.slots[slot_of(n)];
    wait_at(At::kRingEmpty, ring.empty[slot_of(n)], phase_of(n) ^ 1, slot_of(n));
    begin_task(n);
    const uint32_t index = queue.first_task + n;
    const Ahead now = next;
    if (n + 1 < queue.task_count) next = ask_for(image, index + 1, run);
    put_words(slot, now);
    const Task& task = slot.task;
    if ((task.flags & kAfterAll) && n > 0)
      wait_at(At::kRingEmpty, ring.empty[slot_of(n - 1)], phase_of(n - 1), slot_of(n - 1));
    const uint64_t wait_ns = traced ? ptx::timer_ns() : 0;
    going = meet_start<pair>(worker, ring, n, index, task, now, run, begun);
    if (ptx::one_lane()) {
      slot.index = index;
      slot.stop = !going;
      slot.wait_ns = wait_ns;
      slot.run = run;
    }
    ptx::sync_warp();
    if (going) resolve(worker, slot, now, index, run);
    ptx::sync_warp();
    if (ptx::one_lane()) ptx::arrive(ring.full[slot_of(n)]);
  }
  if (!going) return;
  wait_at(At::kRingEmpty, ring.empty[slot_of(n)], phase_of(n) ^ 1, slot_of(n));
  if (ptx::one_lane()) {
    ring.slots[slot_of(n)].stop = true;
    ptx::arrive(ring.full[slot_of(n)]);
  }
}

}  // namespace sk::cuda

#endif  // SK_CUDA_KERNEL_FETCH_CUH_
