// Operations that users made of a tile of theirs: rows, or blocks of rows and columns, dealt over
// the workers.
#include "lib/algo/user_tile.h"

#include "lib/algo/ops.h"
#include "lib/algo/part.h"
#include "lib/algo/rows.h"
#include "lib/op/scope.h"
#include "lib/tile/user_table.h"

namespace sk::algo {
namespace {

using Cut = UserEffect::Cut;

constexpr uint64_t kBlockBytes = 512;  // Of a row of a block, at least.
constexpr uint64_t kBlockRows = 64;
constexpr uint64_t kBlocksMax = 4096;  // Of a plan; plans are judged task by task.

uint64_t parts_of(uint64_t count, uint64_t part) { return (count + part - 1) / part; }

class UserPlan {
 public:
  UserPlan(const OpDesc& op, const Target& target, const UserTile& tile)
      : layout_(op, target),
        tile_(tile),
        effect_(tile.places()),
        free_(named(op.schema().dimensions, op.schema().free)) {
    const OpScope scope(op, 1);
    for (const UserEffect::Iterator& each : effect_.iterators) {
      whole_.push_back(uint64_t(std::max<int64_t>(0, evaluate(each.extent, scope).value)));
      if (each.cut == Cut::kFirst) first_ = int(whole_.size()) - 1;
      if (each.cut == Cut::kSecond) second_ = int(whole_.size()) - 1;
    }
    add_operands();
  }

  Plan make() {
    if (first_ < 0) return all();
    return second_ < 0 ? rows() : blocks();
  }
  Plan cut(uint64_t most, uint64_t tasks_max) {
    const uint64_t rows = extent(first_), columns = extent(second_);
    uint64_t high = most, wide = most;
    const auto part = [&](uint64_t count, uint64_t part, uint64_t unit) {
      return std::max<uint64_t>(1, part == 0 ? count : align_up(std::min(part, count), unit));
    };
    for (;; most *= 4) {
      high = part(rows, most, effect_.unit[0]);
      wide = part(columns, most, effect_.unit[1]);
      if (most == 0 || parts_of(rows, high) * parts_of(columns, wide) <= tasks_max) break;
    }
    begin(1);
    for (uint64_t row = 0; row < rows; row += high) {
      for (uint64_t column = 0; column < columns; column += wide) {
        add(0, {row, std::min(high, rows - row)}, {column, std::min(wide, columns - column)});
      }
    }
    return finish();
  }

 private:
  struct Range {
    uint64_t first = 0, count = 0;
  };

  // Of what is cut; what is not is one.
  uint64_t extent(int iterator) const { return iterator < 0 ? 1 : whole_[size_t(iterator)]; }

  void add_operands() {
    const OpDesc& op = layout_.op();
    const std::span<const OperandSchema> operands = op.schema().operands;
    operands_.resize(operands.size());
    const auto count = uint8_t(operands.size());
    for (uint8_t i = 0; i < count; ++i) {
      if (!op.aliased(i)) operands_[i] = add_rows(layout_, i);
    }
    for (uint8_t i = 0; i < count; ++i) {
      if (!op.aliased(i)) continue;
      operands_[i] = operands_[size_t(op.schema().operand(operands[i].alias) - operands.data())];
    }
  }

  // One call of the function at a time: one queue.
  Target dealt_to() const {
    Target target = layout_.target();
    if (tile_.text().serial) target.workers = 1;
    return target;
  }
  uint64_t element_bytes(size_t region) const {
    return dtype_bytes(layout_.op().type(uint32_t(region)));
  }
  // What goes with one step along `iterator`, over all regions; along `other` it has one element.
  uint64_t bytes_along(int iterator, int other) const {
    uint64_t bytes = 0;
    for (size_t i = 0; i < operands_.size(); ++i) {
      const auto& at = effect_.places[i].iterator;
      if (at[0] != iterator && at[1] != iterator) continue;
      uint64_t elements = 1;
      for (const int each : at) {
        if (each >= 0 && each != iterator && each != other) elements *= whole_[size_t(each)];
      }
      bytes += elements * element_bytes(i);
    }
    return bytes;
  }

  Plan all() {
    begin(1);
    add(0, {}, {});
    return finish();
  }

  Plan rows() {
    const uint64_t count = whole_[size_t(first_)];
    // Vectors alone are cut between lines.
    uint64_t unit = effect_.unit[0];
    bool vectors = unit == 1;
    for (const auto& place : effect_.places) vectors &= place.iterator[0] < 0;
    if (vectors) unit = line_elements(layout_.op().type(0));
    const Deal deal(dealt_to(), count, bytes_along(first_, -1), unit,
                    uint64_t(tile_.text().tile_rows));
    begin(deal.queues());
    deal.for_each([&](uint32_t queue, uint64_t first, uint64_t rows) {
      add(queue, {first, rows}, {});
    });
    return finish();
  }

  Plan blocks() {
    const uint64_t rows = whole_[size_t(first_)], columns = whole_[size_t(second_)];
    const uint64_t bytes = std::max<uint64_t>(1, bytes_along(second_, first_));
    uint64_t high =
        align_up(tile_.text().tile_rows > 0 ? uint64_t(tile_.text().tile_rows) : kBlockRows,
                 effect_.unit[0]);
    uint64_t wide = align_up(std::max(line_elements(layout_.op().type(0)), kBlockBytes / bytes),
                             effect_.unit[1]);
    while (parts_of(rows, high) * parts_of(columns, wide) > kBlocksMax)
      (high <= wide ? high : wide) *= 2;
    // Where a call is to have so many rows at least, the last ones have what would be fewer, too.
    const uint64_t down = tile_.text().tile_rows > 0 && rows > 0
                              ? std::max<uint64_t>(1, rows / high)
                              : parts_of(rows, high);
    const uint64_t across = parts_of(columns, wide), count = down * across;
    const Deal deal(dealt_to(), count, high * wide * bytes);
    begin(deal.queues());
    deal.for_each([&](uint32_t queue, uint64_t first, uint64_t blocks) {
      for (uint64_t block = first; block < first + blocks; ++block) {
        const uint64_t row = block / across * high, column = block % across * wide;
        const bool last = block / across + 1 == down;
        add(queue, {row, last ? rows - row : high}, {column, std::min(wide, columns - column)});
      }
    });
    return finish();
  }

  void begin(uint32_t queues) {
    part_ = std::make_unique<Part>(layout_, 0, queues, 0, [](uint32_t, uint32_t) { return 0u; });
  }

  // Of a region's rows or columns: those that belong to what is cut.
  Range range(size_t region, size_t axis, Range first, Range second) const {
    const int iterator = effect_.places[region].iterator[axis];
    if (iterator < 0) return {0, 1};
    if (iterator != first_ && iterator != second_) return {0, whole_[size_t(iterator)]};
    const Range of = iterator == first_ ? first : second;
    const uint64_t block = effect_.places[region].block[axis];
    return {of.first / block, parts_of(of.count, block)};
  }

  Region region(size_t number, Range first, Range second) const {
    const RegionAccess access =
        layout_.op().schema().operands[number].role == Role::kIn ? kRead : kWrite;
    const Range rows = range(number, 0, first, second), columns = range(number, 1, first, second);
    const RowsOperand& operand = operands_[number];
    if (operand.is_vector) return operand.rows(columns.first, columns.count, access);
    const uint64_t element = element_bytes(number);
    return operand.block(rows.first, rows.count, columns.first * element, columns.count * element,
                         access);
  }

  void add(uint32_t queue, Range first, Range second) {
    const OpDesc& op = layout_.op();
    std::vector<Region> regions;
    std::vector<int64_t> params(tile_.parameter_count());
    for (size_t i = 0; i < operands_.size(); ++i) {
      regions.push_back(region(i, first, second));
      params[tile_.type_parameter(i)] = int64_t(op.type(uint32_t(i)));
    }
    for (size_t i = 0; i < whole_.size(); ++i) {
      params[tile_.whole_parameter(i)] = int64_t(whole_[i]);
      if (int(i) != first_ && int(i) != second_) continue;
      const Range of = int(i) == first_ ? first : second;
      params[tile_.first_parameter(i)] = int64_t(of.first);
      params[tile_.count_parameter(i)] = int64_t(of.count);
    }
    for (size_t i = 0; i < op.schema().attributes.size(); ++i) {
      params[tile_.number_parameter(i)] = op[op.schema().attribute_field(i)];
    }
    part_->builder().add({.op = tile_.id,
                          .queue = queue,
                          .free = free_ != nullptr ? uint8_t(kFreeRows) : uint8_t(0),
                          .more_regions = regions,
                          .params = params});
  }

  Plan finish() {
    std::vector<RankPlan> parts;
    parts.push_back(part_->finish());
    Plan plan = layout_.finish(std::move(parts));
    if (free_ != nullptr)
      plan.free.number = uint32_t(free_ - plan.op.schema().dimensions.data()) + 1;
    return plan;
  }

  Layout layout_;
  const UserTile& tile_;
  const UserEffect& effect_;
  const Dimension* free_;  // Null where plans are of one number of rows.
  std::vector<RowsOperand> operands_;
  std::vector<uint64_t> whole_;   // By iterator.
  int first_ = -1, second_ = -1;  // The iterators that are cut.
  std::unique_ptr<Part> part_;
};

}  // namespace

Result<Plan> cut_user_tile(const OpDesc& op, uint64_t most, uint64_t tasks_max) {
  const UserTile* tile = user_tile(op.schema().tile);
  if (tile == nullptr) return error(SK_ERR_INTERNAL, "{} has no tile", describe(op));
  return UserPlan(op, Target(), *tile).cut(most, tasks_max);
}

Result<Plan> plan_user_tile(const OpDesc& op, const Target& target, Ranks) {
  const UserTile* tile = user_tile(op.schema().tile);
  if (tile == nullptr) return error(SK_ERR_INTERNAL, "{} has no tile", describe(op));
  return UserPlan(op, target, *tile).make();
}

}  // namespace sk::algo
