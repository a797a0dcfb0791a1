// The operations on vectors, and the meeting of ranks: include/sk/op.h.
#include "lib/op/ops/all.h"

namespace sk::ops {
namespace {

constexpr Dimension kCount[] = {{"count", Member::kCount}};

constexpr OperandSchema vector(const char* name, Role role, const char* shape) {
  OperandSchema operand{
      .name = name, .role = role, .types = "any", .type = Member::kDType, .shape = shape};
  operand.symmetric = role == Role::kIn ? Member::kSymmetricIn : Member::kSymmetricOut;
  return operand;
}
constexpr OperandSchema aliased(OperandSchema operand, const char* alias, const char* at) {
  operand.alias = alias;
  operand.alias_at = at;
  return operand;
}
constexpr OperandSchema only_on(OperandSchema operand, const char* rank) {
  operand.only_on = rank;
  return operand;
}

constexpr OperandSchema kIn = vector("in", Role::kIn, "count"),
                        kOut = vector("out", Role::kOut, "count");

constexpr Attribute kOp[] = {{"op", AttributeKind::kRedOp, Member::kRedOp}};
constexpr Attribute kRoot[] = {{"root", AttributeKind::kRank, Member::kRoot}};
constexpr Attribute kEnds[] = {{"root", AttributeKind::kRank, Member::kRoot, "sender"},
                               {"peer", AttributeKind::kRank, Member::kPeer, "receiver"}};

constexpr Condition kAveragesOfFloats[] = {
    {"op != avg or is_float(in)", "averages are for floating types"}};
constexpr Condition kTwoRanks[] = {{"root != peer", "a rank sends nothing to itself"}};

constexpr OperandSchema kAllreduceOperands[] = {kIn, aliased(kOut, "in", "0")};
constexpr OperandSchema kAllgatherOperands[] = {aliased(kIn, "out", "rank * count"),
                                                vector("out", Role::kOut, "world * count")};
constexpr OperandSchema kReduceScatterOperands[] = {vector("in", Role::kIn, "world * count"),
                                                    aliased(kOut, "in", "rank * count")};
constexpr OperandSchema kBroadcastOperands[] = {only_on(kIn, "root"), kOut};
constexpr OperandSchema kSendRecvOperands[] = {only_on(kIn, "root"), only_on(kOut, "peer")};

}  // namespace

constexpr Schema kBarrier = {.id = OpKind::kBarrier, .name = "barrier", .brief = ""};
constexpr Schema kAllreduce = {.id = OpKind::kAllreduce,
                               .name = "allreduce",
                               .brief = "{in.dtype}, {op}, {count}",
                               .dimensions = kCount,
                               .operands = kAllreduceOperands,
                               .attributes = kOp,
                               .conditions = kAveragesOfFloats};
constexpr Schema kAllgather = {.id = OpKind::kAllgather,
                               .name = "allgather",
                               .brief = "{in.dtype}, {count}",
                               .dimensions = kCount,
                               .operands = kAllgatherOperands};
constexpr Schema kReduceScatter = {.id = OpKind::kReduceScatter,
                                   .name = "reduce_scatter",
                                   .brief = "{in.dtype}, {op}, {count}",
                                   .dimensions = kCount,
                                   .operands = kReduceScatterOperands,
                                   .attributes = kOp,
                                   .conditions = kAveragesOfFloats};
constexpr Schema kBroadcast = {.id = OpKind::kBroadcast,
                               .name = "broadcast",
                               .brief = "{in.dtype}, {count}, root {root}",
                               .dimensions = kCount,
                               .operands = kBroadcastOperands,
                               .attributes = kRoot};
constexpr Schema kSendRecv = {.id = OpKind::kSendRecv,
                              .name = "send_recv",
                              .brief = "{in.dtype}, {count}, {root} to {peer}",
                              .dimensions = kCount,
                              .operands = kSendRecvOperands,
                              .attributes = kEnds,
                              .conditions = kTwoRanks};

}  // namespace sk::ops
