// The task format: plain data that every executor reads, CPU threads and CUDA kernels alike.
//
// A task is one tile's work by one worker, from load to store. Three rules bind every executor:
// (1) The tasks of a queue start in order. (2) A task starts only once its waits are met. (3) Its
// posts are seen only after all its writes are. Queue order orders starts only: what a task's wait
// has let it see, later tasks of its queue may rely on too; that an earlier task has finished, they
// may rely on only behind kAfterAll; whoever has waited for a post, behind kPostsInOrder too. This
// file includes nothing but <cstdint>: it is level 0.
#ifndef SK_LIB_PLAN_TASK_H_
#define SK_LIB_PLAN_TASK_H_

#include <cstdint>

namespace sk {

// Values are part of the text form and of uploaded plans: never renumbered.
enum class TaskOp : uint16_t {
  kNop = 0,     // Carries waits and posts only.
  kEnter = 1,   // Tells the peers that this rank has entered the run: {seq, fingerprint, operands}.
  kAwait = 2,   // Starts once every peer has entered this run with the same fingerprint.
  kPut = 3,     // regions: src (local), dst (one peer's); posts[0] travels with the bytes.
  kCopy = 4,    // regions: src, dst (one or several buffers).
  kReduce = 5,  // regions: in (several), out (one or several).
  kPackB = 6,   // regions: b, packed.
  kGemm = 7,    // regions: a, packed b, then out | partial | partials and out: see GemmParam.
  // Of rows, on CPUs so far. Parameters: RowsParam, of the last SumRowsParam.
  kRmsnorm = 8,          // regions: x, weight where it is given, y, rstd where it is.
  kRmsnormBackward = 9,  // regions: dy, x, rstd, weight where it is given, dx, sums where they are.
  kSumRows = 10,         // regions: in, out.
  kAddRmsnorm = 11,  // regions: x, residual, weight where it is given, y, total, rstd where it is.
  // Of vectors, on CPUs so far. regions: params, grads, ms, vs, and the new ones of all but grads.
  kAdamw = 12,
  // kGemm of a B that lies as the caller has it, on GPUs. regions: a, b (all of it), then as
  // kGemm's.
  kGemmRaw = 13,
  kUserFirst = 0x4000,  // From here on: tiles of users, by their process (lib/tile/user_table.h).
};
inline constexpr uint32_t kTaskOpCount = 14;

enum TaskFlags : uint8_t {
  kAfterAll = 1,      // Starts only once every earlier task of its queue has finished.
  kFreeRows = 2,      // The first range of its tile is over the plan's free dimension,
  kFreeBlocks = 4,    // or over the blocks of it (free_rows.h).
  kPostsInOrder = 8,  // Starts as others do, but its posts are seen only once every earlier task of
                      // its queue has finished. Not for puts, whose posts travel with the bytes.
};

// A strided block of bytes, the same in `buffer_count` buffers with consecutive ids (the ranks'
// copies of one operand, in rank order). rows >= 1; row i starts at offset + i * pitch.
struct Region {
  uint64_t offset;
  uint64_t row_bytes;
  uint64_t pitch;  // Bytes; equals row_bytes where rows is 1.
  uint32_t rows;
  uint32_t buffer;
  uint32_t buffer_count;
  uint32_t access;  // RegionAccess.
};
static_assert(sizeof(Region) == 40);

enum RegionAccess : uint32_t { kRead = 1, kWrite = 2 };

// Of a task; of one that takes one region or more of a kind: those are of every machine.
inline constexpr uint32_t kRegionCountMax = 8, kRepeatedRegionsMax = 6;

// What a plan has where a run puts a value of its own: the number of an operation's runtime
// attribute behind this. The bits of a NaN, which no attribute is.
inline constexpr int64_t kRunValue = 0x7ff9'0000'0000'0000;
inline constexpr uint32_t kRunValuesMax = 4;

// Signals belong to an edge, from the rank whose tasks post them to the rank that waits for them,
// and are numbered within it: both ends name one without knowing the other's further edges.

// The signal `signal` from rank `producer` has grown by at least `target` since the run began.
struct Wait {
  uint32_t producer;
  uint32_t signal;
  uint32_t target;
};

// Adds `add` to the signal `signal` from the own rank to rank `rank`.
struct Post {
  uint32_t rank;
  uint32_t signal;
  uint32_t add;
};

// Slices of the side tables of the rank's plan: regions, parameters, waits, posts.
struct Task {
  TaskOp op;
  uint8_t flags;  // TaskFlags.
  uint8_t region_count;
  uint16_t param_count;
  uint16_t wait_count;
  uint32_t post_count;
  uint32_t first_region;
  uint32_t first_param;
  uint32_t first_wait;
  uint32_t first_post;
};
static_assert(sizeof(Task) == 28);

struct Queue {
  uint32_t first_task;
  uint32_t task_count;
};

// Parameters, all int64: one enum per operation that has any.
enum CopyParam { kCopyHint, kCopyParamCount };  // StoreHint.
enum ReduceParam { kReduceDtype, kReduceOutDtype, kReduceOp, kReduceHint, kReduceParamCount };
enum PackParam {
  kPackDtype,
  kPackTransposeB,
  kPackK,
  kPackN,
  kPackCol0,
  kPackCol1,
  kPackParamCount
};

// Rows [row0, row0 + rows) of [m, n].
enum RowsParam {
  kRowsDtype,
  kRowsWeightDtype,
  kRowsGiven,  // RowsGiven.
  kRowsM,
  kRowsN,
  kRowsRow0,
  kRowsRows,
  kRowsEps,               // Of kRmsnorm and kAddRmsnorm: the bits of a double.
  kRowsBlock = kRowsEps,  // Of kRmsnormBackward: so many rows are summed to a row of `sums`.
  kRowsHint,
  kRowsParamCount
};
enum RowsGiven { kGivenWeight = 1, kGivenSecond = 2 };  // Bits: the second output.

// Columns [col0, col0 + cols) of [m, n], each summed over all rows in their order.
enum SumRowsParam {
  kSumRowsDtype,
  kSumRowsOutDtype,
  kSumRowsM,
  kSumRowsN,
  kSumRowsCol0,
  kSumRowsCols,
  kSumRowsParamCount
};

// Elements [first, first + count) of n; the last two are values of a run.
enum AdamwParam {
  kAdamwDtype,
  kAdamwGradDtype,
  kAdamwN,
  kAdamwFirst,
  kAdamwCount,
  kAdamwBeta1,  // From here on the bits of doubles,
  kAdamwBeta2,
  kAdamwEps,
  kAdamwWeightDecay,
  kAdamwLr,
  kAdamwStep,  // and an integer.
  kAdamwParamCount
};

// kGemm: rows [row0, row0 + rows) and columns [col0, col0 + cols) of C[m, n] = A[m, k] * B[k, n].
// Regions by epilogue: kStore: a, b, c. kPartial: a, b, partial. kReduce: a, b, partials, c: sums
// the ranks' partial tiles in rank order, where entry `self` is this product itself, and stores the
// rounded sum into every c. `a` is the tile's rows of A (its columns where A is transposed).
enum GemmParam {
  kGemmDtype,
  kGemmOutDtype,
  kGemmTransposeA,
  kGemmM,
  kGemmN,
  kGemmK,
  kGemmRow0,
  kGemmRows,
  kGemmCol0,
  kGemmCols,
  kGemmEpilogue,
  kGemmSelf,
  kGemmHint,
  kGemmParamCount,
  // Of kGemmRaw, behind those: whether B holds [n, k].
  kGemmRawTransposeB = kGemmParamCount,
  kGemmRawParamCount
};
enum GemmEpilogue { kGemmStore = 0, kGemmPartial = 1, kGemmReduce = 2 };
// How a tile treats the caches; never what it computes. kTakeInputs: nobody else reads the inputs
// before their producer writes them again, so the reader takes the lines over. kHandOver: the next
// to touch the output is another rank.
enum StoreHintParam { kStoreDefault = 0, kStoreNonTemporal = 1, kTakeInputs = 2, kHandOver = 3 };

}  // namespace sk

#endif  // SK_LIB_PLAN_TASK_H_
