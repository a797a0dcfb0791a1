#include "lib/plan/check/footprint.h"

#include <algorithm>
#include <tuple>

#include "lib/plan/builder.h"
#include "lib/plan/check/operands.h"

namespace sk::check {
namespace {

constexpr uint64_t kMixedPitch = UINT64_MAX;  // While pitches are sought: more than one.

void sort_unique(std::vector<uint64_t>& cuts) {
  if (!std::is_sorted(cuts.begin(), cuts.end())) std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
}

// The index of a cut that is there, which is often `likely`.
uint32_t index_of(const std::vector<uint64_t>& cuts, uint64_t at, uint32_t likely = 0) {
  if (likely < cuts.size() && cuts[likely] == at) return likely;
  return uint32_t(std::lower_bound(cuts.begin(), cuts.end(), at) - cuts.begin());
}

// Most regions go on where others have ended.
void note_cuts(std::vector<uint64_t>& cuts, uint64_t first, uint64_t last) {
  if (cuts.size() >= 2 && cuts.back() == last && cuts[cuts.size() - 2] == first) return;
  if (cuts.empty() || cuts.back() != first) cuts.push_back(first);
  cuts.push_back(last);
}

Region operand_region(const Extent& extent) {
  return {0, extent.row_bytes, extent.stride, uint32_t(extent.rows), 0, 1, kRead};
}

}  // namespace

void Footprint::find_memories() {
  const auto key = [&](uint32_t id) {
    const Buffer& b = plan_.buffers[id];
    const bool workspace = b.kind == BufferKind::kWorkspace;
    return std::tuple(b.owner, workspace, uint32_t(workspace ? b.generations : b.operand),
                      workspace ? b.offset : 0, workspace ? b.bytes : 0, id);
  };
  std::vector<decltype(key(0))> keys;
  keys.reserve(plan_.buffers.size());
  for (uint32_t id = 0; id < plan_.buffers.size(); ++id) keys.push_back(key(id));
  std::sort(keys.begin(), keys.end());
  // By its first buffer: memories are numbered in the order of buffers.
  std::vector<uint32_t> first_buffer(plan_.buffers.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto memory = [&](size_t at) {
      const auto& [owner, workspace, part, offset, bytes, id] = keys[at];
      return std::tie(owner, workspace, part, offset, bytes);
    };
    const bool known = i > 0 && memory(i - 1) == memory(i);
    const uint32_t id = std::get<5>(keys[i]);
    first_buffer[id] = known ? first_buffer[std::get<5>(keys[i - 1])] : id;
  }
  for (uint32_t id = 0; id < plan_.buffers.size(); ++id) {
    if (first_buffer[id] != id) {
      memory_of_.push_back(memory_of_[first_buffer[id]]);
      continue;
    }
    const Buffer& b = plan_.buffers[id];
    Memory memory;
    memory.owner = b.owner;
    memory.buffer = id;
    memory.kind = b.kind;
    memory.operand = b.operand;
    memory.generations = b.generations;
    memory.bytes = b.bytes;
    memory_of_.push_back(uint32_t(memories_.size()));
    memories_.push_back(std::move(memory));
  }
}

void Footprint::find_pitches() {
  const auto note = [&](uint32_t memory, const Region& region) {
    if (region.rows <= 1 || region.row_bytes == 0 || region.pitch == region.row_bytes) return;
    uint64_t& pitch = memories_[memory].pitch;
    pitch = pitch == 0 || pitch == region.pitch ? region.pitch : kMixedPitch;
  };
  for (const RankPlan& part : plan_.ranks) {
    for (const Region& region : part.regions) {
      // Regions that no task names are not checked: they may point anywhere.
      if (uint64_t(region.buffer) + region.buffer_count > plan_.buffers.size()) continue;
      for (uint32_t j = 0; j < region.buffer_count; ++j)
        note(memory_of_[region.buffer + j], region);
      budget_.spend(region.buffer_count);
    }
  }
  for (Memory& memory : memories_) {
    if (memory.kind != BufferKind::kWorkspace) {
      note(memory_of_[memory.buffer], operand_region(operands_.extent(memory.operand)));
    }
    if (memory.pitch == 0 || memory.pitch == kMixedPitch) memory.pitch = memory.bytes;
    memory.pitch = std::max<uint64_t>(memory.pitch, 1);
  }
}

void Footprint::add_rect(uint32_t memory, const ByteRect& rect) {
  byte_rects_.push_back(rect);
  rect_memory_.push_back(memory);
}

void Footprint::place(uint32_t id, const Region& region) {
  if (region.row_bytes == 0 || region.rows == 0) return;
  const uint64_t pitch = memories_[id].pitch;
  if (region.rows == 1 && pitch == memories_[id].bytes) {
    return add_rect(id, {0, 1, region.offset, region.offset + region.row_bytes});
  }
  const uint64_t row = region.offset / pitch, column = region.offset % pitch;
  const bool flat = region.rows == 1 || region.pitch == region.row_bytes;
  if (!flat && region.pitch == pitch && column + region.row_bytes <= pitch) {
    return add_rect(id, {row, row + region.rows, column, column + region.row_bytes});
  }
  const uint32_t runs = flat ? 1 : region.rows;
  const uint64_t bytes = flat ? region.rows * region.row_bytes : region.row_bytes;
  budget_.spend(uint64_t(runs) * 16);
  for (uint32_t i = 0; i < runs && !budget_.exhausted(); ++i) {
    uint64_t at = region.offset + i * region.pitch;
    const uint64_t end = at + bytes;
    if (at % pitch != 0) {  // Up to the end of the row.
      const uint64_t stop = std::min(end, align_up(at, pitch));
      add_rect(id, {at / pitch, at / pitch + 1, at % pitch, at % pitch + (stop - at)});
      at = stop;
    }
    if (end - at >= pitch) {  // Whole rows.
      add_rect(id, {at / pitch, end / pitch, 0, pitch});
      at = end / pitch * pitch;
    }
    if (at < end) add_rect(id, {at / pitch, at / pitch + 1, 0, end - at});
  }
}

Status Footprint::place_task(const RankPlan& part, uint32_t index) {
  const Task& task = part.tasks[index];
  const Signature& signature = *signature_of(task.op);
  const std::span<const int64_t> params = part.params_of(task);
  for (uint32_t i = 0; i < task.region_count; ++i) {
    const Region& region = part.regions_of(task)[i];
    if (region.buffer_count > UINT16_MAX) {
      return refuse('h', "rank {}: a region in {} buffers", part.rank, region.buffer_count);
    }
    if (region.row_bytes == 0) continue;
    const std::optional<uint64_t> own = signature.own_entry(params, i, task.region_count);
    for (uint32_t j = 0; j < region.buffer_count; ++j) {
      if (own == j) continue;
      const uint32_t memory = memory_of_[region.buffer + j];
      const uint32_t first = uint32_t(byte_rects_.size());
      place(memory, region);
      accesses_.push_back({memory, first, uint32_t(byte_rects_.size()) - first, uint16_t(i),
                           uint16_t(j), region.access == kWrite});
    }
  }
  budget_.spend(accesses_.size() - first_access_.back());
  return byte_rects_.size() < (1u << 25) && !budget_.exhausted() ? Status() : budget_.status();
}

void Footprint::place_operands() {
  for (uint32_t id = 0; id < memories_.size(); ++id) {
    if (memories_[id].kind == BufferKind::kWorkspace) continue;
    const Extent extent = operands_.extent(memories_[id].operand);
    if (extent.rows == 1) {  // What must lie in a part of a vector begins and ends at cells too.
      for (uint32_t i = 0; i < operands_.count(); ++i) {
        if (operands_.home(i) != memories_[id].operand) continue;
        const Window window = operands_.window(i, cast_.rank(memories_[id].owner));
        place(id, flat(0, window.first, window.count, kRead));
      }
    }
    memories_[id].first_rect = uint32_t(byte_rects_.size());
    place(id, operand_region(extent));
    memories_[id].rect_count = uint32_t(byte_rects_.size()) - memories_[id].first_rect;
  }
}

void Footprint::cut() {
  for (size_t i = 0; i < byte_rects_.size(); ++i) {
    const ByteRect& rect = byte_rects_[i];
    Memory& memory = memories_[rect_memory_[i]];
    note_cuts(memory.rows, rect.row0, rect.row1);
    note_cuts(memory.columns, rect.column0, rect.column1);
  }
  uint64_t cells = 0;
  for (Memory& memory : memories_) {
    if (memory.rows.empty()) memory.columns.clear();
    sort_unique(memory.rows);
    sort_unique(memory.columns);
    memory.first_cell = uint32_t(cells);
    cells += uint64_t(memory.row_count()) * memory.column_count();
    if (cells > (1u << 23)) return budget_.spend(UINT64_MAX);
  }
  cell_count_ = uint32_t(cells);
  rects_.reserve(byte_rects_.size());
  for (size_t i = 0; i < byte_rects_.size(); ++i) {
    const ByteRect& rect = byte_rects_[i];
    const Memory& memory = memories_[rect_memory_[i]];
    const uint32_t row0 = index_of(memory.rows, rect.row0);
    const uint32_t column0 = index_of(memory.columns, rect.column0);
    rects_.push_back({row0, index_of(memory.rows, rect.row1, row0 + 1), column0,
                      index_of(memory.columns, rect.column1, column0 + 1)});
  }
}

Status Footprint::build() {
  find_memories();
  find_pitches();
  size_t accesses = 0;  // About: tables that would grow to it are made so large at once.
  for (const RankPlan& part : plan_.ranks) {
    for (const Region& region : part.regions) accesses += std::min(region.buffer_count, 64u);
  }
  accesses_.reserve(accesses);
  byte_rects_.reserve(accesses);
  rect_memory_.reserve(accesses);
  for (const RankPlan& part : plan_.ranks) {
    first_task_.push_back(uint32_t(first_access_.size()));
    for (uint32_t i = 0; i < part.tasks.size(); ++i) {
      first_access_.push_back(uint32_t(accesses_.size()));
      SK_RETURN_IF_ERROR(place_task(part, i));
    }
  }
  first_access_.push_back(uint32_t(accesses_.size()));
  place_operands();
  cut();
  return budget_.exhausted() ? budget_.status() : Status();
}

}  // namespace sk::check
