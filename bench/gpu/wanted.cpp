#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/gpu/parts.h"

namespace sk::cuda {

bool Wanted::operator()(const std::string& name) const {
  seen_.push_back(name);
  return name_.empty() || name == name_;
}

void Wanted::check() const {
  if (name_.empty()) return;
  for (const std::string& name : seen_)
    if (name == name_) return;
  throw std::runtime_error(
      fmt::format("there is no case \"{}\"; there are: {}", name_, fmt::join(seen_, ", ")));
}

}  // namespace sk::cuda
