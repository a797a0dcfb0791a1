// A signature as lib/effect reads it, with names looked up: made once.
#ifndef SK_LIB_TILE_SIGNATURE_EFFECT_H_
#define SK_LIB_TILE_SIGNATURE_EFFECT_H_

#include <memory>
#include <vector>

#include "lib/tile/signature.h"

namespace sk {

class SignatureEffect {
 public:
  // `signature` outlives it.
  explicit SignatureEffect(const Signature& signature);
  SignatureEffect(const SignatureEffect&) = delete;
  SignatureEffect& operator=(const SignatureEffect&) = delete;

  const effect::Tile& tile() const { return *tile_; }

 private:
  std::vector<const char*> names_;
  std::vector<std::vector<effect::RegionRecord>> regions_;  // By form, which points into it.
  std::vector<effect::FormRecord> forms_;
  effect::TileRecord record_;
  std::unique_ptr<const effect::Tile> tile_;
};

}  // namespace sk

#endif  // SK_LIB_TILE_SIGNATURE_EFFECT_H_
