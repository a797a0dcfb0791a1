#include "lib/control/merge/item_list.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

namespace sk::control {
namespace {

constexpr uint64_t kTailShare = 16;  // One part in so many is kept for the end.

// So that ranks that lost different items are not taken for equal.
uint64_t digest(const Item& item) {
  const std::hash<std::string_view> of;
  // Not the text of an edited line: how old it is depends on when the view was shown.
  uint64_t value = (item.edited ? item.bytes : of(item.text)) * 31 + item.stream +
                   static_cast<uint64_t>(item.kind) * 7;
  if (item.display == nullptr) return value;
  for (const Mime& mime : item.display->mimes) value = value * 31 + of(mime.data);
  return value;
}

}  // namespace

void Weight::add(const Item& item) {
  lines += item.kind == Item::Kind::kLine ? 1 : 0;
  displays += item.is_display() ? 1 : 0;
  (item.is_display() ? display_bytes : bytes) += item.bytes;
}

void Weight::remove(const Item& item) {
  lines -= item.kind == Item::Kind::kLine ? 1 : 0;
  displays -= item.is_display() ? 1 : 0;
  (item.is_display() ? display_bytes : bytes) -= item.bytes;
}

void Weight::add(const Weight& other) {
  lines += other.lines;
  bytes += other.bytes;
  displays += other.displays;
  display_bytes += other.display_bytes;
}

bool Weight::within(const ViewLimits& limits) const {
  return lines <= limits.lines && bytes <= limits.bytes && displays <= limits.displays &&
         display_bytes <= limits.display_bytes;
}

ViewLimits tail_part(const ViewLimits& limits) {
  return {std::max<uint64_t>(1, limits.lines / kTailShare), limits.bytes / kTailShare,
          limits.displays / kTailShare, limits.display_bytes / kTailShare};
}

ViewLimits head_part(const ViewLimits& limits) {
  const ViewLimits tail = tail_part(limits);
  return {limits.lines - std::min(limits.lines, tail.lines), limits.bytes - tail.bytes,
          limits.displays - tail.displays, limits.display_bytes - tail.display_bytes};
}

size_t ItemList::push(Item item) {
  head_full_ = head_full_ || !head_weight_.within(head_limits_);
  if (!head_full_) {
    head_weight_.add(item);
    head_.push_back(std::move(item));
    return size() - 1;
  }
  tail_weight_.add(item);
  tail_.push_back(std::move(item));
  while (tail_.size() > kEditable && !tail_weight_.within(tail_limits_)) {
    tail_weight_.remove(tail_.front());
    note_.digest = note_.digest * 1'000'003 + digest(tail_.front());
    note_.lines += tail_.front().kind == Item::Kind::kLine ? 1 : 0;
    note_.displays += tail_.front().is_display() ? 1 : 0;
    tail_.pop_front();
    ++elided_;
  }
  return size() - 1;
}

Item* ItemList::find(size_t index) {
  if (index < head_.size()) return &head_[index];
  const size_t in_tail = index - head_.size();
  if (in_tail < elided_ || in_tail - elided_ >= tail_.size()) return nullptr;
  return &tail_[in_tail - elided_];
}

void ItemList::change_bytes(size_t index, int64_t difference) {
  Item* const item = find(index);
  if (item == nullptr) return;
  Weight& weight = index < head_.size() ? head_weight_ : tail_weight_;
  weight.remove(*item);
  item->bytes += static_cast<uint64_t>(difference);
  weight.add(*item);
}

}  // namespace sk::control
