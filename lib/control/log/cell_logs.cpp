#include "lib/control/log/cell_logs.h"

#include <algorithm>
#include <utility>

#include "lib/control/merge/view.h"
#include "lib/control/text.h"

namespace sk::control {
namespace {

constexpr uint64_t kPartBytes = 512;  // What an empty part of a rank takes, about.
constexpr uint64_t kPieceBytesMax = 16ull << 20;
constexpr uint64_t kPieceBytes = 1ull << 20;

uint64_t size_of(const DisplayRecord& display) {
  uint64_t bytes = 128 + display.metadata.size();
  for (const Mime& mime : display.mimes) bytes += mime.type.size() + mime.data.size();
  return bytes;
}

bool is_kept(const DisplayRecord& display) {
  return display.kind == SK_DISPLAY_DATA || display.kind == SK_DISPLAY_RESULT ||
         display.kind == SK_DISPLAY_UPDATE;
}

}  // namespace

Result<uint32_t> CellLogs::Room::put(std::string_view bytes) {
  while (true) {
    auto id = chunks_.put(bytes);
    if (id.ok() || !logs_.drop_oldest()) return id;
  }
}

// False when only the newest cell is left.
bool CellLogs::drop_oldest() {
  if (cells_.size() <= 1) return false;
  const auto oldest = cells_.begin();
  dropped_to_ = oldest->first;
  memory_ -= oldest->second.memory;
  cells_.erase(oldest);
  return true;
}

void CellLogs::start(uint64_t cell, int64_t execution_count, RankSet ranks, uint64_t kept_bytes) {
  Cell& kept = cells_[cell];
  kept.execution_count = execution_count;
  kept.kept_bytes = kept_bytes;
  kept.ranks = std::move(ranks);
  while (cells_.size() > limits_.cells && drop_oldest()) {
  }
}

int64_t CellLogs::execution_count(uint64_t cell) const {
  const auto found = cells_.find(cell);
  return found == cells_.end() ? 0 : found->second.execution_count;
}

CellLogs::RankPart& CellLogs::part_of(Cell& cell, uint32_t rank) {
  std::unique_ptr<RankPart>& part = cell.parts[rank];
  if (!part) {
    part = std::make_unique<RankPart>(room_, cell.kept_bytes);
    cell.memory += kPartBytes;
    memory_ += kPartBytes;
  }
  return *part;
}

void CellLogs::add(uint64_t number, uint32_t rank, const Record& record) {
  const auto found = cells_.find(number);
  if (found == cells_.end()) return;
  Cell& cell = found->second;
  RankPart& part = part_of(cell, rank);
  const uint64_t before = part.text.memory_bytes();
  if (const auto* stream = std::get_if<StreamRecord>(&record.body)) add_text(part, *stream);
  const auto* display = std::get_if<DisplayRecord>(&record.body);
  if (display != nullptr && is_kept(*display)) add_display(cell, part, *display);
  const uint64_t grown = part.text.memory_bytes() - before;  // Modulo 2^64 when it shrank.
  cell.memory += grown;
  memory_ += grown;
  while (memory_ > limits_.memory_bytes && cells_.begin()->first != number && drop_oldest()) {
  }
}

void CellLogs::add_text(RankPart& part, const StreamRecord& stream) {
  std::string& pending = part.pending[stream.stream == SK_STREAM_STDERR ? 1 : 0];
  const std::string text = std::exchange(pending, {}) + stream.text;
  const size_t open = utf8_open_tail(text);
  pending = text.substr(text.size() - open);
  part.text.append(utf8_clean(std::string_view(text).substr(0, text.size() - open)));
}

void CellLogs::add_display(Cell& cell, RankPart& part, const DisplayRecord& display) {
  const uint64_t bytes = size_of(display);
  if (cell.memory + bytes > limits_.memory_bytes) {
    ++part.displays_dropped;
    return;
  }
  part.displays.push_back(display);
  cell.memory += bytes;
  memory_ += bytes;
}

// As the reader knows it: by its number in the notebook, where it has one.
uint64_t CellLogs::number_of(const std::pair<uint64_t, Cell*>& cell) {
  const int64_t shown = cell.second->execution_count;
  return shown > 0 ? static_cast<uint64_t>(shown) : cell.first;
}

std::string CellLogs::no_display(uint64_t asked, uint32_t rank, const RankPart& part) {
  const size_t kept = part.displays.size();
  if (kept == 0 && part.displays_dropped == 0)
    return fmt::format("rank {} displayed nothing in that cell", rank);
  const std::string dropped =
      part.displays_dropped == 0 ? "" : fmt::format(", {} were too much", part.displays_dropped);
  return fmt::format("there is no display {} of rank {} in that cell: {} {} kept{}", asked, rank,
                     kept, kept == 1 ? "is" : "are", dropped);
}

Result<std::pair<uint64_t, CellLogs::Cell*>> CellLogs::find(const LogRequest& request) {
  if (cells_.empty()) return error(SK_ERR_OUT_OF_RANGE, "no cell has run yet");
  if (request.cell == 0 && request.execution_count == 0)
    return std::pair(cells_.rbegin()->first, &cells_.rbegin()->second);
  for (auto it = cells_.rbegin(); it != cells_.rend(); ++it)
    if (request.cell != 0 ? it->first == request.cell
                          : it->second.execution_count == request.execution_count)
      return std::pair(it->first, &it->second);
  const char* const older = dropped_to_ > 0 ? "; older ones were dropped to make room" : "";
  if (request.cell != 0)
    return error(SK_ERR_OUT_OF_RANGE, "cell {} is not kept: {} to {} are{}", request.cell,
                 cells_.begin()->first, cells_.rbegin()->first, older);
  return error(SK_ERR_OUT_OF_RANGE, "no cell that is kept has the number {}{}",
               request.execution_count, older);
}

Reply CellLogs::answer(const LogRequest& request) {
  Reply reply;
  reply.request = request.request;
  const auto read = [&]() -> Status {
    SK_ASSIGN_OR_RETURN(const auto cell, find(request));
    RankSet ranks = cell.second->ranks;
    if (!request.ranks.empty()) {
      SK_ASSIGN_OR_RETURN(ranks, parse_ranks(request.ranks, kRankCountMax));
      for (uint32_t rank : ranks)
        if (!std::binary_search(cell.second->ranks.begin(), cell.second->ranks.end(), rank))
          return error(SK_ERR_OUT_OF_RANGE, "rank {} did not run cell {}, {} did", rank,
                       number_of(cell), name_ranks(cell.second->ranks));
    }
    if (request.what == SK_LOG_DISPLAY) return read_display(request, *cell.second, ranks, reply);
    return read_text(request, cell.first, *cell.second, ranks, reply);
  };
  const Status status = read();
  reply.status = status.code();
  if (!status.ok()) reply.text = status.message();
  return reply;
}

Status CellLogs::read_text(const LogRequest& request, uint64_t number, Cell& cell,
                           const RankSet& ranks, Reply& reply) {
  const uint64_t limit = std::min(request.limit == 0 ? kPieceBytes : request.limit, kPieceBytesMax);
  std::string piece;
  if (ranks.size() == 1) {
    const TextLog& text = part_of(cell, ranks[0]).text;
    reply.total = text.size();
    SK_ASSIGN_OR_RETURN(piece, text.read(request.offset, limit));
  } else {
    // A first piece is of the text as it is now, the next ones are of the same text.
    if (request.offset == 0 || merged_cell_ != number || merged_ranks_ != ranks) {
      SK_ASSIGN_OR_RETURN(merged_, merge(cell, ranks));
      merged_cell_ = number;
      merged_ranks_ = ranks;
    }
    reply.total = merged_.size();
    piece = merged_.substr(std::min<uint64_t>(request.offset, merged_.size()), limit);
  }
  // Whole characters, if there is more.
  if (request.offset + piece.size() < reply.total)
    piece.resize(piece.size() - utf8_open_tail(piece));
  reply.start = std::min(request.offset, reply.total);
  reply.end = reply.start + piece.size();
  reply.text = std::move(piece);
  return {};
}

Status CellLogs::read_display(const LogRequest& request, Cell& cell, const RankSet& ranks,
                              Reply& reply) {
  if (ranks.size() != 1)
    return error(SK_ERR_INVALID_ARGUMENT, "displays are read from one rank; ranks is \"{}\"",
                 request.ranks);
  const RankPart& part = part_of(cell, ranks[0]);
  reply.total = part.displays.size();
  if (request.offset >= part.displays.size())
    return error(SK_ERR_OUT_OF_RANGE, "{}", no_display(request.offset, ranks[0], part));
  const DisplayRecord& display = part.displays[request.offset];
  reply.mimes = display.mimes;
  reply.metadata = display.metadata;
  return {};
}

Result<std::string> CellLogs::merge(const Cell& cell, const RankSet& ranks) const {
  uint64_t total = 0;
  for (uint32_t rank : ranks) {
    const auto part = cell.parts.find(rank);
    if (part != cell.parts.end()) total += part->second->text.size();
  }
  if (total > limits_.merged_bytes)
    return error(SK_ERR_OUT_OF_RANGE,
                 "{} printed {} bytes; at most {} are merged at once, so ask for "
                 "fewer ranks",
                 name_ranks(ranks), total, limits_.merged_bytes);
  uint64_t lines = 0;
  ViewStyle style;
  style.limits = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
  RankLogs logs;
  for (uint32_t rank : ranks) {
    RankLog& log = logs.emplace(rank, RankLog(style.limits)).first->second;
    const auto part = cell.parts.find(rank);
    if (part == cell.parts.end()) continue;
    SK_ASSIGN_OR_RETURN(std::string text, part->second->text.read(0, total));
    lines += static_cast<uint64_t>(std::count(text.begin(), text.end(), '\n'));
    if (lines > limits_.merged_lines)
      return error(SK_ERR_OUT_OF_RANGE,
                   "{} printed more than {} lines, which is what is merged at most, "
                   "so ask for fewer ranks",
                   name_ranks(ranks), limits_.merged_lines);
    log.add({0, StreamRecord{SK_STREAM_STDOUT, std::move(text)}}, 0);
    log.finish(0);
  }
  std::string merged;
  for (const Event& event : canonical_view(logs, ranks, style)) merged += event.text;
  return merged;
}

}  // namespace sk::control
