// rmsnorm, forward and backward: rows dealt over the workers; of the weight's gradient columns, so
// that each is summed over all rows by one task and in one order.
#include "lib/op/ops/rmsnorm.h"

#include <optional>

#include "lib/algo/ops.h"
#include "lib/algo/part.h"
#include "lib/algo/rows.h"

namespace sk::algo {
namespace {

uint8_t number_of(const Schema& schema, std::string_view name) {
  return uint8_t(schema.operand(name) - schema.operands.data());
}

class Rows {
 public:
  Rows(const OpDesc& op, const Target& target)
      : layout_(op, target),
        m_(uint64_t(op[op.schema().field("m")])),
        n_(uint64_t(op[op.schema().field("n")])),
        deal_(target, m_, n_ * layout_.element_bytes()),
        part_(layout_, 0, deal_.queues(), 0, [](uint32_t, uint32_t) { return 0u; }) {}

  Plan forward() {
    const RowsOperand x = operand("x");
    const RowsOperand y = layout_.op().aliased(number("y")) ? x : operand("y");
    const std::optional<RowsOperand> weight = optional("weight"), rstd = optional("rstd");
    deal_.for_each([&](uint32_t queue, uint64_t row, uint64_t rows) {
      const Region from = x.rows(row, rows, kRead), to = y.rows(row, rows, kWrite);
      // It is read once more before it is written over.
      if (rstd) add(TaskOp::kRms, queue, row, rows, {from, rstd->rows(row, rows, kWrite)});
      const bool in_place = rstd && x.buffer == y.buffer;
      if (weight) {
        add(TaskOp::kRmsnorm, queue, row, rows, {from, weight->rows(0, n_, kRead), to}, in_place);
      } else {
        add(TaskOp::kRmsnorm, queue, row, rows, {from, to}, in_place);
      }
    });
    return finish();
  }

  Plan backward() {
    const RowsOperand dy = operand("dy"), x = operand("x"), rstd = operand("rstd"),
                      dx = operand("dx");
    const std::optional<RowsOperand> weight = optional("weight"), dweight = optional("dweight");
    deal_.for_each([&](uint32_t queue, uint64_t row, uint64_t rows) {
      const Region from_dy = dy.rows(row, rows, kRead), from_x = x.rows(row, rows, kRead),
                   by = rstd.rows(row, rows, kRead), to = dx.rows(row, rows, kWrite);
      if (weight) {
        add(TaskOp::kRmsnormDx, queue, row, rows,
            {from_dy, from_x, by, weight->rows(0, n_, kRead), to});
      } else {
        add(TaskOp::kRmsnormDx, queue, row, rows, {from_dy, from_x, by, to});
      }
    });
    if (dweight) sum_columns(dy, x, rstd, *dweight);
    return finish();
  }

 private:
  uint8_t number(std::string_view name) const { return number_of(layout_.op().schema(), name); }
  RowsOperand operand(std::string_view name) { return add_rows(layout_, number(name)); }
  std::optional<RowsOperand> optional(std::string_view name) {
    if (layout_.op().absent(number(name))) return std::nullopt;
    return operand(name);
  }
  DType weight_type() const { return layout_.op().type(number("weight")); }

  void add(TaskOp tile, uint32_t queue, uint64_t row, uint64_t rows,
           std::initializer_list<Region> regions, bool after_all = false) {
    const OpDesc& op = layout_.op();
    const Field eps = op.schema().field("eps");
    const uint64_t bytes = m_ * n_ * layout_.element_bytes();
    int64_t params[kRowsParamCount] = {};
    params[kRowsDtype] = int64_t(op.type(number("x")));
    params[kRowsWeightDtype] = int64_t(weight_type());
    params[kRowsGiven] = op.absent(number("weight")) ? 0 : 1;
    params[kRowsM] = int64_t(m_);
    params[kRowsN] = int64_t(n_);
    params[kRowsRow0] = int64_t(row);
    params[kRowsRows] = int64_t(rows);
    params[kRowsEps] = eps ? op[eps] : 0;
    params[kRowsHint] = bytes >= layout_.target().stream_bytes && !op.in_place() ? kStoreNonTemporal
                                                                                 : kStoreDefault;
    part_.builder().add(
        {.op = tile, .queue = queue, .after_all = after_all, .regions = regions, .params = params});
  }

  void sum_columns(const RowsOperand& dy, const RowsOperand& x, const RowsOperand& rstd,
                   const RowsOperand& dweight) {
    const OpDesc& op = layout_.op();
    const DType dtype = op.type(number("x")), out = op.type(number("dweight"));
    const uint64_t element = dtype_bytes(dtype), out_element = dtype_bytes(out);
    for (uint32_t queue = 0; queue < deal_.queues(); ++queue) {
      const Slice columns = slice_of(n_, deal_.queues(), queue, line_elements(dtype));
      if (columns.count == 0) continue;
      int64_t params[kColumnsParamCount] = {};
      params[kColumnsDtype] = int64_t(dtype);
      params[kColumnsWeightDtype] = int64_t(out);
      params[kColumnsM] = int64_t(m_);
      params[kColumnsN] = int64_t(n_);
      params[kColumnsCol0] = int64_t(columns.begin);
      params[kColumnsCols] = int64_t(columns.count);
      const uint64_t first = columns.begin * element, bytes = columns.count * element;
      part_.builder().add({.op = TaskOp::kRmsnormDw,
                           .queue = queue,
                           .regions = {dy.columns(first, bytes, m_, kRead),
                                       x.columns(first, bytes, m_, kRead), rstd.rows(0, m_, kRead),
                                       flat(dweight.buffer, columns.begin * out_element,
                                            columns.count * out_element, kWrite)},
                           .params = params});
    }
  }

  Plan finish() {
    std::vector<RankPlan> parts;
    parts.push_back(part_.finish());
    return layout_.finish(std::move(parts));
  }

  Layout layout_;
  uint64_t m_, n_;
  Deal deal_;
  Part part_;
};

}  // namespace

Result<Plan> plan_rmsnorm(const OpDesc& op, const Target& target, Ranks) {
  return Rows(op, target).forward();
}
Result<Plan> plan_rmsnorm_backward(const OpDesc& op, const Target& target, Ranks) {
  return Rows(op, target).backward();
}

}  // namespace sk::algo
