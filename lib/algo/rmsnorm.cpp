// rmsnorm, forward, backward and of a sum: rows dealt over the workers. The weight's gradient is
// summed in blocks of rows that do not depend on them; then each worker joins all blocks of some
// columns.
#include "lib/op/ops/rmsnorm.h"

#include <optional>
#include <string_view>

#include "lib/algo/ops.h"
#include "lib/algo/part.h"
#include "lib/algo/rows.h"

namespace sk::algo {
namespace {

constexpr uint64_t kBlock = ops::rows::kBlockRows;

class Rows {
 public:
  // Rows are dealt in lumps of `unit`.
  Rows(const OpDesc& op, const Target& target, uint64_t unit)
      : layout_(op, target),
        free_(named(op.schema().dimensions, op.schema().free)),
        m_(uint64_t(op[op.schema().field("m")])),
        n_(uint64_t(op[op.schema().field("n")])),
        deal_(target, m_, n_ * layout_.element_bytes(), unit),
        lanes_(unit > 1 && deal_.queues() > 1 ? deal_.queues() : 0),
        part_(layout_, 0, deal_.queues(), lanes_,
              [&](uint32_t, uint32_t lane) { return deal_.tasks(lane); }) {}

  Result<Plan> forward() {
    const RowsOperand x = operand("x");
    const RowsOperand y = layout_.op().aliased(number("y")) ? x : operand("y");
    const std::optional<RowsOperand> weight = optional("weight"), rstd = optional("rstd");
    deal_.for_each([&](uint32_t queue, uint64_t row, uint64_t rows) {
      Regions regions;
      regions.push_back(x.rows(row, rows, kRead));
      if (weight) regions.push_back(weight->rows(0, n_, kRead));
      regions.push_back(y.rows(row, rows, kWrite));
      if (rstd) regions.push_back(rstd->rows(row, rows, kWrite));
      add(TaskOp::kRmsnorm, queue, row, rows, regions, rstd.has_value());
    });
    return finish();
  }

  Result<Plan> added() {
    const RowsOperand x = operand("x"), residual = operand("residual");
    const RowsOperand y = layout_.op().aliased(number("y")) ? x : operand("y");
    const RowsOperand total = layout_.op().aliased(number("total")) ? residual : operand("total");
    const std::optional<RowsOperand> weight = optional("weight"), rstd = optional("rstd");
    deal_.for_each([&](uint32_t queue, uint64_t row, uint64_t rows) {
      Regions regions;
      regions.push_back(x.rows(row, rows, kRead));
      regions.push_back(residual.rows(row, rows, kRead));
      if (weight) regions.push_back(weight->rows(0, n_, kRead));
      regions.push_back(y.rows(row, rows, kWrite));
      regions.push_back(total.rows(row, rows, kWrite));
      if (rstd) regions.push_back(rstd->rows(row, rows, kWrite));
      add(TaskOp::kAddRmsnorm, queue, row, rows, regions, rstd.has_value());
    });
    return finish();
  }

  Result<Plan> backward() {
    const RowsOperand dy = operand("dy"), x = operand("x"), rstd = operand("rstd"),
                      dx = operand("dx");
    const std::optional<RowsOperand> weight = optional("weight"), dweight = optional("dweight");
    const RowsOperand sums = dweight ? blocks() : RowsOperand();
    deal_.for_each([&](uint32_t queue, uint64_t row, uint64_t rows) {
      Regions regions;
      regions.push_back(dy.rows(row, rows, kRead));
      regions.push_back(x.rows(row, rows, kRead));
      regions.push_back(rstd.rows(row, rows, kRead));
      if (weight) regions.push_back(weight->rows(0, n_, kRead));
      regions.push_back(dx.rows(row, rows, kWrite));
      if (dweight) regions.push_back(sums.rows(row / kBlock, blocks_of(rows), kWrite));
      add(TaskOp::kRmsnormBackward, queue, row, rows, regions, dweight.has_value());
    });
    joins_ = dweight.has_value();
    if (joins_) join(sums, *dweight);
    return finish();
  }

 private:
  using Regions = Few<Region, kRegionCountMax>;

  // Of a name that the schema must have: finish() says so where it has not.
  uint8_t number(std::string_view name) {
    const Schema& schema = layout_.op().schema();
    const OperandSchema* const found = schema.operand(name);
    if (found == nullptr) missing_ = name;
    return found == nullptr ? uint8_t(0) : uint8_t(found - schema.operands.data());
  }
  RowsOperand operand(std::string_view name) { return add_rows(layout_, number(name)); }
  std::optional<RowsOperand> optional(std::string_view name) {
    if (layout_.op().absent(number(name))) return std::nullopt;
    return operand(name);
  }
  static uint64_t blocks_of(uint64_t rows) { return (rows + kBlock - 1) / kBlock; }
  DType sums_type() { return accumulator(layout_.op().type(number("x"))); }
  RowsOperand blocks() {
    RowsOperand out;
    out.row_bytes = out.pitch = n_ * dtype_bytes(sums_type());
    out.buffer = layout_.add_workspace(BufferAccess::kLocal, blocks_of(m_) * out.row_bytes);
    return out;
  }

  void add(TaskOp tile, uint32_t queue, uint64_t row, uint64_t rows, const Regions& regions,
           bool second) {
    const OpDesc& op = layout_.op();
    const Field eps = op.schema().field("eps");
    const uint64_t bytes = m_ * n_ * layout_.element_bytes();
    int64_t params[kRowsParamCount] = {};
    params[kRowsDtype] = int64_t(op.type(number("x")));
    const bool weighted = op.schema().operand("weight") != nullptr && !op.absent(number("weight"));
    params[kRowsWeightDtype] = int64_t(op.type(number(weighted ? "weight" : "x")));
    params[kRowsGiven] = (weighted ? kGivenWeight : 0) | (second ? kGivenSecond : 0);
    params[kRowsM] = int64_t(m_);
    params[kRowsN] = int64_t(n_);
    params[kRowsRow0] = int64_t(row);
    params[kRowsRows] = int64_t(rows);
    if (eps) {
      params[kRowsEps] = op[eps];
    } else {
      params[kRowsBlock] = int64_t(kBlock);
    }
    params[kRowsHint] = bytes >= layout_.target().stream_bytes && !op.in_place() ? kStoreNonTemporal
                                                                                 : kStoreDefault;
    const Post done = part_.to(0, queue);
    part_.builder().add({.op = tile,
                         .queue = queue,
                         .free = free_ != nullptr ? uint8_t(kFreeRows) : uint8_t(0),
                         .more_regions = {regions.begin(), regions.size()},
                         .params = params,
                         .posts = {&done, lanes_ > 0 ? size_t(1) : 0}});
  }

  // Behind all blocks of all queues.
  void join(const RowsOperand& sums, const RowsOperand& dweight) {
    const OpDesc& op = layout_.op();
    const DType out = op.type(number("dweight"));
    const uint64_t element = dtype_bytes(sums_type()), out_element = dtype_bytes(out);
    std::vector<Wait> all;
    for (uint32_t queue = 0; queue < lanes_; ++queue) {
      if (deal_.tasks(queue) > 0) all.push_back(part_.from(0, queue, deal_.tasks(queue)));
    }
    for (uint32_t queue = 0; queue < deal_.queues(); ++queue) {
      const Slice columns = slice_of(n_, deal_.queues(), queue, line_elements(out));
      if (columns.count == 0) continue;
      int64_t params[kSumRowsParamCount] = {};
      params[kSumRowsDtype] = int64_t(sums_type());
      params[kSumRowsOutDtype] = int64_t(out);
      params[kSumRowsM] = int64_t(blocks_of(m_));
      params[kSumRowsN] = int64_t(n_);
      params[kSumRowsCol0] = int64_t(columns.begin);
      params[kSumRowsCols] = int64_t(columns.count);
      part_.builder().add({.op = TaskOp::kSumRows,
                           .queue = queue,
                           .after_all = lanes_ == 0,
                           .free = free_ != nullptr ? uint8_t(kFreeBlocks) : uint8_t(0),
                           .regions = {sums.columns(columns.begin * element,
                                                    columns.count * element, blocks_of(m_), kRead),
                                       flat(dweight.buffer, columns.begin * out_element,
                                            columns.count * out_element, kWrite)},
                           .params = params,
                           .waits = all});
    }
  }

  Result<Plan> finish() {
    if (!missing_.empty())
      return error(SK_ERR_INTERNAL, "{} has no operand {}", layout_.op().schema().name, missing_);
    std::vector<RankPlan> parts;
    parts.push_back(part_.finish());
    Plan plan = layout_.finish(std::move(parts));
    if (free_ != nullptr) {
      const Dimension* const first = plan.op.schema().dimensions.data();
      plan.free = {uint32_t(free_ - first) + 1, joins_ ? uint32_t(kBlock) : 0};
    }
    return plan;
  }

  Layout layout_;
  const Dimension* free_;  // Null where plans are of one number of rows.
  uint64_t m_, n_;
  Deal deal_;
  uint32_t lanes_;  // One for each queue, where others wait for what it has done.
  Part part_;
  bool joins_ = false;  // Blocks of rows.
  std::string_view missing_;
};

}  // namespace

Result<Plan> plan_rmsnorm(const OpDesc& op, const Target& target, Ranks) {
  return Rows(op, target, 1).forward();
}
Result<Plan> plan_add_rmsnorm(const OpDesc& op, const Target& target, Ranks) {
  return Rows(op, target, 1).added();
}
Result<Plan> plan_rmsnorm_backward(const OpDesc& op, const Target& target, Ranks) {
  const Schema& schema = op.schema();
  const bool sums = !op.absent(uint32_t(schema.operand("dweight") - schema.operands.data()));
  return Rows(op, target, sums ? kBlock : 1).backward();
}

}  // namespace sk::algo
