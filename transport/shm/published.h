// What ranks that are threads of one process share: the mappings of the one that made them.
#ifndef SK_TRANSPORT_SHM_PUBLISHED_H_
#define SK_TRANSPORT_SHM_PUBLISHED_H_

#include <memory>

#include "transport/shm/memory.h"

namespace sk::shm {

// What a rank has mapped itself: its segment, and its host's control memory where it made that.
struct Mappings {
  std::shared_ptr<SharedMemory> segment;
  std::shared_ptr<SharedMemory> control;
};

// While ranks connect, each can be found in its process by its secret. A forked child finds none of
// its parent's.
class Published {
 public:
  Published(const Secret& secret, const Mappings& mappings);
  ~Published();
  Published(const Published&) = delete;
  Published& operator=(const Published&) = delete;

  // The control memory that ranks of this process are to use, whose leader is in another one and
  // has `leader_secret`: `mine`, or what a rank that came before has mapped already.
  static std::shared_ptr<SharedMemory> share_control(const Secret& leader_secret,
                                                     const std::shared_ptr<SharedMemory>& mine);

  // No segment: there is none in this process.
  static Mappings find(const Secret& secret);

 private:
  Secret secret_;
};

}  // namespace sk::shm

#endif  // SK_TRANSPORT_SHM_PUBLISHED_H_
