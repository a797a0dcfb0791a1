#include "lib/plan/check/cells.h"

#include <algorithm>

namespace sk::check {
namespace {

bool intersect(const Rect& a, const Rect& b) {
  return a.row0 < b.row1 && b.row0 < a.row1 && a.column0 < b.column1 && b.column0 < a.column1;
}

std::string bytes_of(const Region& region) {
  if (region.rows == 1) {
    return fmt::format("bytes {} to {}", region.offset, region.offset + region.row_bytes - 1);
  }
  return fmt::format("{} rows of {} bytes from byte {}", region.rows, region.row_bytes,
                     region.offset);
}

}  // namespace

Cells::Cells(const Plan& plan, const Events& events, const Footprint& footprint, Clocks& clocks,
             Budget& budget)
    : plan_(plan), events_(events), footprint_(footprint), clocks_(clocks), budget_(budget) {
  const std::vector<Memory>& memories = footprint.memories();
  const bool staged = std::any_of(memories.begin(), memories.end(),
                                  [](const Memory& m) { return m.generations > 1; });
  cells_.resize(size_t(footprint.cell_count()) * (staged ? 2 : 1));
  between_.resize(plan.ranks.size());
  for (uint32_t id = 0; id < memories.size(); ++id) {
    if (memories[id].generations == 1) between_[memories[id].owner].push_back(id);
  }
}

bool Cells::over(const Toucher& toucher, uint32_t clock) const {
  switch (toucher.kind) {
    case Toucher::kNobody:
      return true;
    case Toucher::kTask:
      return events_.knows_end(clocks_, clock, toucher.id, toucher.run);
    case Toucher::kPutArrival:
      return events_.knows_post(clocks_, clock, toucher.id, toucher.run);
    case Toucher::kCaller:
    case Toucher::kOtherPlan:
      return clocks_.prefix(clock, events_.begun_line(toucher.id)) > toucher.run;
  }
  return false;
}

std::string Cells::name(const Toucher& toucher) const {
  if (toucher.kind == Toucher::kCaller) {
    return fmt::format("the caller of rank {} before run {}", toucher.id, toucher.run);
  }
  if (toucher.kind == Toucher::kOtherPlan) {
    return fmt::format("another plan, which rank {} may run before run {},", toucher.id,
                       toucher.run);
  }
  return fmt::format("{} of run {}", events_.where(plan_, toucher.id), toucher.run);
}

Status Cells::race(const Toucher& first, bool first_writes, uint32_t event,
                   const Access& access) const {
  const Where where = events_.where(plan_, event);
  const Region& region = where.part.regions_of(where.task())[access.region];
  return refuse('c', "{} {} {} of buffer {}, and nothing says that {} has {} them before", where,
                access.write ? "writes" : "reads", bytes_of(region), region.buffer + access.entry,
                name(first), first_writes ? "written" : "read");
}

Status Cells::read(Cell& cell, const Toucher& self, uint32_t clock, const Access& access) {
  budget_.spend(3 + cell.more_readers.size());
  if (!over(cell.writer, clock)) return race(cell.writer, true, self.id, access);
  std::vector<Toucher>& more = cell.more_readers;
  if (!more.empty()) {
    std::erase_if(more, [&](const Toucher& reader) { return over(reader, clock); });
  }
  if (!over(cell.reader, clock)) {
    more.push_back(self);
  } else if (more.empty()) {
    cell.reader = self;
  } else {
    cell.reader = more.front();
    more.erase(more.begin());
    more.push_back(self);
  }
  return Status();
}

Status Cells::write(Cell& cell, const Toucher& self, uint32_t clock, const Access& access) {
  budget_.spend(3 + cell.more_readers.size());
  if (!over(cell.writer, clock)) return race(cell.writer, true, self.id, access);
  const auto races = [&](const Toucher& reader) {
    const bool own = reader.id == self.id && reader.run == self.run;  // In place: check_aliases().
    return !own && !over(reader, clock);
  };
  if (races(cell.reader)) return race(cell.reader, false, self.id, access);
  for (const Toucher& reader : cell.more_readers) {
    if (races(reader)) return race(reader, false, self.id, access);
  }
  cell.reader = {};
  cell.more_readers.clear();
  cell.writer = self;
  return Status();
}

Status Cells::touch(uint32_t event, uint32_t clock, int32_t run) {
  const Where where = events_.where(plan_, event);
  const uint32_t index = where.part.queues[where.queue].first_task + where.index;
  const bool put = where.task().op == TaskOp::kPut;
  for (const Access& access : footprint_.accesses(where.part.rank, index)) {
    const Memory& memory = footprint_.memories()[access.memory];
    Cell* cells = cells_of(memory, run);
    const Toucher self{put && access.write ? Toucher::kPutArrival : Toucher::kTask, run, event};
    for (const Rect& rect : footprint_.rects(access)) {
      for (uint32_t row = rect.row0; row < rect.row1; ++row) {
        for (uint32_t column = rect.column0; column < rect.column1; ++column) {
          Cell& cell = cells[memory.cell(row, column)];
          SK_RETURN_IF_ERROR(access.write ? write(cell, self, clock, access)
                                          : read(cell, self, clock, access));
        }
      }
    }
  }
  return Status();
}

Status Cells::end_race(const Toucher& first, uint32_t rank, const Memory& memory) const {
  return refuse('c',
                "run {} of rank {} ends, and nothing says that {} is done with buffer {} there",
                first.run, rank, name(first), memory.buffer);
}

Status Cells::touch_between(uint32_t rank, uint32_t clock, int32_t run) {
  for (const uint32_t id : between_[rank]) {
    const Memory& memory = footprint_.memories()[id];
    const bool workspace = memory.kind == BufferKind::kWorkspace;
    const Toucher next{workspace ? Toucher::kOtherPlan : Toucher::kCaller, run, rank};
    budget_.spend(memory.cell_count());
    for (uint32_t i = 0; i < memory.cell_count(); ++i) {
      Cell& cell = cells_[memory.first_cell + i];
      if (!over(cell.writer, clock)) return end_race(cell.writer, rank, memory);
      if (!over(cell.reader, clock)) return end_race(cell.reader, rank, memory);
      for (const Toucher& reader : cell.more_readers) {
        if (!over(reader, clock)) return end_race(reader, rank, memory);
      }
      cell.reader = {};
      cell.more_readers.clear();
      cell.writer = next;
    }
  }
  return Status();
}

namespace {

// The same bytes in the same order: then an element-wise task may write what it reads.
bool same_bytes(const Region& a, const Region& b) {
  return a.offset == b.offset && a.rows == b.rows && a.row_bytes == b.row_bytes &&
         a.pitch == b.pitch;
}

bool is_read_again(const Where& where, const TileOp& tile, const Access& access) {
  const Task& task = where.task();
  const RegionRole* role =
      tile.signature.role(where.part.params_of(task), access.region, task.region_count);
  return role == nullptr || role->read_again;
}

Status check_pair(const Footprint& footprint, const Where& where, const Access& a,
                  const Access& b) {
  const Task& task = where.task();
  const std::span<const Region> regions = where.part.regions_of(task);
  const TileOp* tile = tile_op(task.op);
  if (tile != nullptr && tile->in_place && a.write != b.write &&
      same_bytes(regions[a.region], regions[b.region]) &&
      !is_read_again(where, *tile, a.write ? b : a)) {
    return Status();
  }
  for (const Rect& x : footprint.rects(a)) {
    for (const Rect& y : footprint.rects(b)) {
      if (!intersect(x, y)) continue;
      return refuse('c', "{}: its regions {} and {} overlap in buffer {}", where, a.region,
                    b.region, regions[b.region].buffer + b.entry);
    }
  }
  return Status();
}

}  // namespace

Status check_aliases(const Plan& plan, const Footprint& footprint, const Events& events,
                     Budget& budget) {
  // Per memory, the accesses of the task at hand: chained through `previous`.
  constexpr uint32_t kNone = UINT32_MAX;
  std::vector<uint32_t> last(footprint.memories().size(), kNone), previous;
  for (const WorldQueue& queue : events.queues()) {
    for (uint32_t i = 0; i < queue.count && !budget.exhausted(); ++i) {
      const Where where = events.where(plan, queue.first_event + i);
      const uint32_t index = where.part.queues[where.queue].first_task + i;
      const std::span<const Access> accesses = footprint.accesses(queue.rank, index);
      previous.assign(accesses.size(), kNone);
      Status status;
      for (uint32_t a = 0; a < accesses.size() && status.ok(); ++a) {
        for (uint32_t b = last[accesses[a].memory]; b != kNone && status.ok(); b = previous[b]) {
          budget.spend(1 + uint64_t(accesses[a].rect_count) * accesses[b].rect_count);
          if (accesses[a].write || accesses[b].write) {
            status = check_pair(footprint, where, accesses[b], accesses[a]);
          }
          if (budget.exhausted()) return budget.status();
        }
        previous[a] = last[accesses[a].memory];
        last[accesses[a].memory] = a;
      }
      for (const Access& access : accesses) last[access.memory] = kNone;
      SK_RETURN_IF_ERROR(std::move(status));
    }
  }
  return budget.exhausted() ? budget.status() : Status();
}

}  // namespace sk::check
