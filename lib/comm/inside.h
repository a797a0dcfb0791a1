// That a rank is inside a call, for who is about to free memory that peers can touch.
#ifndef SK_LIB_COMM_INSIDE_H_
#define SK_LIB_COMM_INSIDE_H_

#include <atomic>
#include <cstdint>

namespace sk {

// Says in the own segment that this rank is in a call; null: nobody has to know. Who frees memory
// sets the abort words and then looks here with a read-modify-write, and this is one, too: the
// later of the two sees the earlier, so either the look at the abort word that follows sees the
// end, or the other sees this. (No fence: ThreadSanitizer knows none.)
class Inside {
 public:
  explicit Inside(std::atomic<uint32_t>* word) : word_(word) {
    if (word_ == nullptr) [[likely]]
      return;
    word_->exchange(1, std::memory_order_acq_rel);
  }
  ~Inside() {
    if (word_ != nullptr) [[unlikely]]
      word_->store(0, std::memory_order_release);
  }
  // In a forked child: the word is its parent's, which is inside.
  void forget() { word_ = nullptr; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  std::atomic<uint32_t>* word_;
};

}  // namespace sk

#endif  // SK_LIB_COMM_INSIDE_H_
