// The items of one rank, bounded: the first ones and the last ones stay, between them is counted.
//
// Where the list is cut depends on the items alone, never on when or in what pieces they came.
#ifndef SK_LIB_CONTROL_MERGE_ITEM_LIST_H_
#define SK_LIB_CONTROL_MERGE_ITEM_LIST_H_

#include <deque>
#include <vector>

#include "lib/control/merge/item.h"

namespace sk::control {

// What a view holds at most.
struct ViewLimits {
  uint64_t lines = 10'000;
  uint64_t bytes = 1u << 20;  // Of text.
  uint64_t displays = 500;
  uint64_t display_bytes = 64u << 20;
};

// What some items come to.
struct Weight {
  uint64_t lines = 0;
  uint64_t bytes = 0;
  uint64_t displays = 0;
  uint64_t display_bytes = 0;

  void add(const Item& item);
  void remove(const Item& item);
  void add(const Weight& other);
  bool within(const ViewLimits& limits) const;
};

// The parts of `limits` for the beginning and for the end of what is cut.
ViewLimits head_part(const ViewLimits& limits);
ViewLimits tail_part(const ViewLimits& limits);

class ItemList {
 public:
  // The last kEditable items stay, whatever they weigh: a cursor may still be in them.
  static constexpr size_t kEditable = 64;

  explicit ItemList(const ViewLimits& limits)
      : head_limits_(head_part(limits)), tail_limits_(tail_part(limits)) {}

  // Items are numbered 0, 1, 2 ... over the list's life; those left out keep their numbers.
  size_t size() const { return head_.size() + elided_ + tail_.size(); }
  size_t push(Item item);
  // Null when it was left out.
  Item* find(size_t index);
  const Item* find(size_t index) const { return const_cast<ItemList*>(this)->find(index); }
  // Its text became longer or shorter.
  void change_bytes(size_t index, int64_t difference);

  size_t elided() const { return elided_; }
  // What stands for the items that were left out; counts of nothing when there are none.
  const Item& note() const { return note_; }
  size_t head_size() const { return head_.size(); }

 private:
  ViewLimits head_limits_;
  ViewLimits tail_limits_;
  std::vector<Item> head_;
  std::deque<Item> tail_;
  Weight head_weight_;
  Weight tail_weight_;
  size_t elided_ = 0;
  Item note_{.kind = Item::Kind::kElided, .text = {}, .display = {}};
  bool head_full_ = false;
};

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_MERGE_ITEM_LIST_H_
