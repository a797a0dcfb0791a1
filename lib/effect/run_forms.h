// The two kinds of forms that tiles have (tile.h), and what they share.
#ifndef SK_LIB_EFFECT_RUN_FORMS_H_
#define SK_LIB_EFFECT_RUN_FORMS_H_

#include "lib/effect/run.h"

namespace sk::effect {

Result<Outputs> run_elements(const TileCall& call, const Tile::Form& form);
Result<Outputs> run_ranges(const TileCall& call, const Tile::Form& form);

// Of two or more terms of one array.
Result<Term> join(const Meaning& meaning, RedOp redop, std::span<const Term> terms);
// What the tile's parameters say must be what the operation says.
Status check_bindings(const TileCall& call, const Tile::Do& step, const Function& function);

}  // namespace sk::effect

#endif  // SK_LIB_EFFECT_RUN_FORMS_H_
