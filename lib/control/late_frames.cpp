#include "lib/control/late_frames.h"

#include <algorithm>
#include <utility>

namespace sk::control {
namespace {

constexpr size_t kCellsMax = 16;
// Of a rank, that is: a frame is sent again whenever it changes.
constexpr ViewLimits kFrame = {1000, 64 * 1024, 32, 4u << 20};

ViewLimits frame_limits(const ViewLimits& view) {
  return {std::min(view.lines, kFrame.lines), std::min(view.bytes, kFrame.bytes),
          std::min(view.displays, kFrame.displays),
          std::min(view.display_bytes, kFrame.display_bytes)};
}

}  // namespace

void LateFrames::start(uint64_t cell) {
  cells_.try_emplace(cell);
  if (cells_.size() <= kCellsMax) return;
  const auto oldest = cells_.begin();
  cells_.erase(oldest->first == cell ? std::next(oldest) : oldest);
}

void LateFrames::add(uint64_t cell, uint32_t rank, const Record& record, const RankSet& world,
                     const ViewStyle& style, int64_t now_ns) {
  Frames& frames = cells_.at(cell);
  frames.world = world;
  frames.style = style;
  frames.logs.try_emplace(rank, frame_limits(style.limits)).first->second.add(record, now_ns);
  frames.news = true;
}

bool LateFrames::has_news() const {
  return std::any_of(cells_.begin(), cells_.end(),
                     [](const auto& cell) { return cell.second.news; });
}

void LateFrames::take_of(uint64_t cell, Frames& frames, std::vector<Event>& out) {
  for (auto& [rank, log] : frames.logs) log.settle();
  std::vector<Event> wanted = canonical_view(frames.logs, frames.world, frames.style);
  for (Event& event : wanted) event.cell = cell;
  auto rest = frames.cleared ? difference(frames.shown, wanted) : std::nullopt;
  if (!rest) {
    // A clear that waits takes effect with the next output; if none follows, it must not wait.
    out.push_back(display_event(wanted.empty() ? SK_DISPLAY_CLEAR : SK_DISPLAY_CLEAR_WAIT, {},
                                frames.world, true));
    out.back().cell = cell;
    rest = wanted;
  }
  frames.cleared = true;
  frames.shown = std::move(wanted);
  for (Event& event : *rest) out.push_back(std::move(event));
}

std::vector<Event> LateFrames::take() {
  std::vector<Event> out;
  for (auto& [cell, frames] : cells_)
    if (std::exchange(frames.news, false)) take_of(cell, frames, out);
  return out;
}

}  // namespace sk::control
