// The operations on vectors, and the meeting of ranks: include/sk/op.h.
#ifndef SK_LIB_OP_OPS_COLLECTIVES_H_
#define SK_LIB_OP_OPS_COLLECTIVES_H_

#include "lib/op/schema.h"

namespace sk {
namespace ops {
namespace vectors {

inline constexpr Dimension kCount[] = {{"count", "elements of one rank's part"}};

constexpr OperandSchema operand(const char* name, Role role, const char* shape) {
  return {.name = name, .role = role, .types = role == Role::kIn ? "any" : "in", .shape = shape};
}
constexpr OperandSchema reached(OperandSchema operand) {
  operand.reached = true;
  return operand;
}
constexpr OperandSchema aliased(OperandSchema operand, const char* alias, const char* at) {
  operand.alias = alias;
  operand.alias_at = at;
  return operand;
}
constexpr OperandSchema may_be_in(OperandSchema operand, const char* other) {
  operand.may_be_in = other;
  return operand;
}
constexpr OperandSchema only_on(OperandSchema operand, const char* rank) {
  operand.only_on = rank;
  return operand;
}

inline constexpr OperandSchema kIn = operand("in", Role::kIn, "count"),
                               kOut = operand("out", Role::kOut, "count");

inline constexpr Attribute kOp[] = {
    {.name = "op",
     .kind = AttributeKind::kRedOp,
     .suggested = "sum",
     .doc = "how elements are joined; averages are for floating types"}};
inline constexpr Attribute kRoot[] = {
    {.name = "root", .kind = AttributeKind::kRank, .doc = "whose elements all get"}};
inline constexpr Attribute kJoinedAt[] = {
    kOp[0], {.name = "root", .kind = AttributeKind::kRank, .doc = "who gets it"}};
inline constexpr Attribute kTaker[] = {
    {.name = "root", .kind = AttributeKind::kRank, .doc = "who gets all"}};
inline constexpr Attribute kGiver[] = {
    {.name = "root", .kind = AttributeKind::kRank, .doc = "whose elements they are"}};
inline constexpr Attribute kEnds[] = {{"root", AttributeKind::kRank, "sender"},
                                      {"peer", AttributeKind::kRank, "receiver"}};

inline constexpr Condition kAveragesOfFloats[] = {
    {"op != op_avg or is_float(in_)", "averages are for floating types"}};

inline constexpr OperandSchema kAllreduce[] = {reached(kIn), aliased(reached(kOut), "in", "0")};
inline constexpr OperandSchema kAllgather[] = {
    aliased(kIn, "out", "rank * count"), reached(operand("out", Role::kOut, "world * count"))};
inline constexpr OperandSchema kReduceScatter[] = {
    reached(operand("in", Role::kIn, "world * count")),
    aliased(reached(kOut), "in", "rank * count")};
inline constexpr OperandSchema kBroadcast[] = {may_be_in(only_on(kIn, "root"), "out"),
                                               reached(kOut)};
inline constexpr OperandSchema kAlltoall[] = {operand("in", Role::kIn, "world * count"),
                                              reached(operand("out", Role::kOut, "world * count"))};
inline constexpr OperandSchema kReduce[] = {reached(kIn), only_on(kOut, "root")};
inline constexpr OperandSchema kGather[] = {
    kIn, only_on(operand("out", Role::kOut, "world * count"), "root")};
inline constexpr OperandSchema kScatter[] = {
    only_on(operand("in", Role::kIn, "world * count"), "root"), reached(kOut)};
inline constexpr OperandSchema kSendRecv[] = {only_on(kIn, "root"), only_on(kOut, "peer")};

inline constexpr Steps kJoined = steps_of("out@q[i] = op(r) in_@r[i]");
inline constexpr Steps kGathered = steps_of("out@q[r * count + i] = in_@r[i]");
inline constexpr Steps kScattered = steps_of("out@q[i] = op(r) in_@r[q * count + i]");
inline constexpr Steps kOfRoot = steps_of("out@q[i] = in_@root[i]");
inline constexpr Steps kTurned = steps_of("out@q[r * count + i] = in_@r[q * count + i]");
inline constexpr Steps kJoinedAtRoot = steps_of("out@root[i] = op(r) in_@r[i]");
inline constexpr Steps kGatheredAtRoot = steps_of("out@root[r * count + i] = in_@r[i]");
inline constexpr Steps kDealt = steps_of("out@q[i] = in_@root[q * count + i]");
inline constexpr Steps kSent = steps_of("out@peer[i] = in_@root[i]");

}  // namespace vectors

inline constexpr Schema kBarrier = {
    .id = OpKind::kBarrier,
    .name = "barrier",
    .brief = "",
    .summary =
        "Returns once every rank has called it. On a GPU what the ranks enqueue behind it waits, "
        "too, for all that they had enqueued before it."};
inline constexpr Schema kAllreduce = {
    .id = OpKind::kAllreduce,
    .name = "allreduce",
    .brief = "{in.dtype}, {op}, {count}",
    .dimensions = vectors::kCount,
    .operands = vectors::kAllreduce,
    .attributes = vectors::kOp,
    .conditions = vectors::kAveragesOfFloats,
    .meaning = &vectors::kJoined,
    .summary =
        "out[i] = op over ranks of in[i], on every rank. The result has the same bits on all of "
        "them. Ranks compare counts and types, not shapes: elements are joined in the order in "
        "which they lie."};
inline constexpr Schema kAllgather = {
    .id = OpKind::kAllgather,
    .name = "allgather",
    .brief = "{in.dtype}, {count}",
    .dimensions = vectors::kCount,
    .operands = vectors::kAllgather,
    .meaning = &vectors::kGathered,
    .summary = "out[r * count + i] = in[i] of rank r, on every rank."};
inline constexpr Schema kReduceScatter = {
    .id = OpKind::kReduceScatter,
    .name = "reduce_scatter",
    .brief = "{in.dtype}, {op}, {count}",
    .dimensions = vectors::kCount,
    .operands = vectors::kReduceScatter,
    .attributes = vectors::kOp,
    .conditions = vectors::kAveragesOfFloats,
    .meaning = &vectors::kScattered,
    .summary = "out[i] = op over ranks of in[rank * count + i]."};
inline constexpr Schema kBroadcast = {.id = OpKind::kBroadcast,
                                      .name = "broadcast",
                                      .brief = "{in.dtype}, {count}, root {root}",
                                      .dimensions = vectors::kCount,
                                      .operands = vectors::kBroadcast,
                                      .attributes = vectors::kRoot,
                                      .meaning = &vectors::kOfRoot,
                                      .summary = "out[i] = in[i] of rank root, on every rank."};
inline constexpr Schema kAlltoall = {
    .id = OpKind::kAlltoall,
    .name = "alltoall",
    .brief = "{in.dtype}, {count}",
    .dimensions = vectors::kCount,
    .operands = vectors::kAlltoall,
    .meaning = &vectors::kTurned,
    .summary =
        "out[r * count + i] = in[rank * count + i] of rank r: each rank has a part for each."};
inline constexpr Schema kReduceToRoot = {
    .id = OpKind::kReduceToRoot,
    .name = "reduce",
    .brief = "{in.dtype}, {op}, {count}, root {root}",
    .dimensions = vectors::kCount,
    .operands = vectors::kReduce,
    .attributes = vectors::kJoinedAt,
    .conditions = vectors::kAveragesOfFloats,
    .meaning = &vectors::kJoinedAtRoot,
    .summary = "out[i] of rank root = op over ranks of in[i], in the order of ranks."};
inline constexpr Schema kGather = {.id = OpKind::kGather,
                                   .name = "gather",
                                   .brief = "{in.dtype}, {count}, root {root}",
                                   .dimensions = vectors::kCount,
                                   .operands = vectors::kGather,
                                   .attributes = vectors::kTaker,
                                   .meaning = &vectors::kGatheredAtRoot,
                                   .summary = "out[r * count + i] of rank root = in[i] of rank r."};
inline constexpr Schema kScatter = {.id = OpKind::kScatter,
                                    .name = "scatter",
                                    .brief = "{in.dtype}, {count}, root {root}",
                                    .dimensions = vectors::kCount,
                                    .operands = vectors::kScatter,
                                    .attributes = vectors::kGiver,
                                    .meaning = &vectors::kDealt,
                                    .summary = "out[i] = in[rank * count + i] of rank root."};
inline constexpr Schema kSendRecv = {
    .id = OpKind::kSendRecv,
    .name = "send_recv",
    .brief = "{in.dtype}, {count}, {root} to {peer}",
    .scope = Scope::kPair,
    .dimensions = vectors::kCount,
    .operands = vectors::kSendRecv,
    .attributes = vectors::kEnds,
    .meaning = &vectors::kSent,
    .summary =
        "out[i] of the receiver = in[i] of the sender. Only these two call. The sender waits until "
        "the other one receives, for nothing is buffered. Two that send to each other are both "
        "refused at once (SK_ERR_DESYNC); a ring in which all send first waits until the timeout, "
        "and ends: let even ranks send first and odd ranks receive first. Counts and types must "
        "match on both sides."};

}  // namespace ops

// A call of these operations in their own terms. What an operation does not have keeps its value.
struct VectorCall {
  DType dtype = DType::kF32;
  RedOp redop = RedOp::kSum;
  bool symmetric_in = false, symmetric_out = false, in_place = false;
  int32_t root = 0;  // Of send_recv: who sends, and `peer` receives.
  int32_t peer = 0;
  int64_t count = 0;
};
VectorCall vector_call(const OpDesc& op);
OpDesc describe(const Schema& schema, const VectorCall& call);

}  // namespace sk

#endif  // SK_LIB_OP_OPS_COLLECTIVES_H_
