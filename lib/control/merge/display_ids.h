// Which displays of past cells an update means: ranks choose ids for themselves, a notebook has one
// set of ids for all.
#ifndef SK_LIB_CONTROL_MERGE_DISPLAY_IDS_H_
#define SK_LIB_CONTROL_MERGE_DISPLAY_IDS_H_

#include <map>
#include <string>
#include <vector>

#include "lib/control/message.h"
#include "lib/control/rank_set.h"

namespace sk::control {

// The id of a display of `ranks`: the rank's own where all ranks share it, else marked with them.
std::string shown_id(const std::string& id, const RankSet& ranks, bool all);

class DisplayIds {
 public:
  // What a cell ended with: its displays' ids are known from now on. `live_id` is nobody's.
  void learn(const std::vector<Event>& shown, const std::string& live_id);

  // The displays that an update of `id` by `ranks` replaces. Empty when there is none, or when one
  // belongs to other ranks as well, who still mean what it shows.
  std::vector<std::string> meant(const std::string& id, const RankSet& ranks) const;
  bool knows(const std::string& id) const { return owners_.contains(id); }

 private:
  // By the ranks' own id: shown ids and whose they are.
  std::map<std::string, std::map<std::string, RankSet>> owners_;
};

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_MERGE_DISPLAY_IDS_H_
