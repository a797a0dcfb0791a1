#include "lib/control/merge/blocks.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

namespace sk::control {
namespace {

// Blocks within blocks: it bounds the work on lines that are shared by ever fewer ranks.
constexpr int kDepthMax = 8;
// Lines and bytes that may be shown again for each rank that has them, so that its lines stay
// whole.
constexpr size_t kAgainLines = 64;
constexpr uint64_t kAgainBytes = 16 * 1024;

using Groups = std::vector<Group>;  // In the order of their places.

void put_ordered(const Groups& groups, const RankSet& all, int depth, std::vector<Column>& out);

void put(Group group, std::vector<Column>& out) {
  Column column;
  column.push_back(std::move(group));
  out.push_back(std::move(column));
}

// Which groups each rank is in.
std::map<uint32_t, std::vector<size_t>> lists_of(const Groups& groups) {
  std::map<uint32_t, std::vector<size_t>> lists;
  for (size_t i = 0; i < groups.size(); ++i)
    for (const uint32_t rank : groups[i].ranks) lists[rank].push_back(i);
  return lists;
}

// Ranks that have three of four lines in common with the lowest of them.
std::vector<RankSet> alike(const Groups& groups) {
  const auto lists = lists_of(groups);
  std::map<uint32_t, size_t> cluster_of;
  std::vector<RankSet> clusters;
  for (const auto& [lead, lead_list] : lists) {
    if (cluster_of.contains(lead)) continue;
    std::map<uint32_t, size_t> shared;
    for (const size_t i : lead_list)
      for (const uint32_t rank : groups[i].ranks)
        if (!cluster_of.contains(rank)) ++shared[rank];
    RankSet cluster;
    for (const auto& [rank, count] : shared) {
      if (4 * count < 3 * std::max(lead_list.size(), lists.at(rank).size())) continue;
      cluster.push_back(rank);
      cluster_of[rank] = clusters.size();
    }
    clusters.push_back(std::move(cluster));
  }
  return clusters;
}

// Each block's part of `groups`, which has all ranks of `blocks`, and no others.
std::vector<Groups> parts_of(const Groups& groups, const std::vector<RankSet>& blocks) {
  std::unordered_map<uint32_t, size_t> block_of;
  for (size_t i = 0; i < blocks.size(); ++i)
    for (const uint32_t rank : blocks[i]) block_of[rank] = i;
  std::vector<Groups> parts(blocks.size());
  for (const Group& group : groups) {
    std::map<size_t, RankSet> split;
    for (const uint32_t rank : group.ranks) split[block_of.at(rank)].push_back(rank);
    for (auto& [block, ranks] : split) parts[block].push_back({group.item, std::move(ranks)});
  }
  return parts;
}

// Ranks with the same lines as one, the lowest rank first. False: too much would be shown again.
bool put_apart(const Groups& groups, std::vector<Column>& out) {
  std::map<std::vector<size_t>, RankSet> same;
  for (auto& [rank, list] : lists_of(groups)) same[list].push_back(rank);
  std::map<RankSet, const std::vector<size_t>*> by_rank;
  std::vector<bool> shown(groups.size(), false);
  size_t lines = 0;
  uint64_t bytes = 0;
  for (const auto& [list, ranks] : same) {
    by_rank[ranks] = &list;
    for (const size_t i : list) {
      lines += shown[i] ? 1 : 0;
      bytes += shown[i] ? groups[i].item->bytes : 0;
      shown[i] = true;
    }
  }
  if (lines > kAgainLines || bytes > kAgainBytes) return false;
  for (const auto& [ranks, list] : by_rank)
    for (const size_t i : *list) put({groups[i].item, ranks}, out);
  return true;
}

// Lines of one stream, none of which all ranks share.
void put_blocks(const Groups& groups, int depth, std::vector<Column>& out) {
  if (put_apart(groups, out)) return;
  const std::vector<RankSet> blocks = alike(groups);
  if (blocks.size() == 1 || depth >= kDepthMax) {
    for (const Group& group : groups) put(group, out);
    return;
  }
  const std::vector<Groups> parts = parts_of(groups, blocks);
  for (size_t i = 0; i < blocks.size(); ++i) put_ordered(parts[i], blocks[i], depth + 1, out);
}

// The two streams by turns, so that each is read in one piece: a line comes in the first turn of
// its stream that is not before one of its ranks' earlier lines.
std::vector<Groups> turns_of(const Groups& groups) {
  const uint32_t first = groups.front().item->stream;
  std::unordered_map<uint32_t, size_t> turn_of;
  std::vector<Groups> turns;
  for (const Group& group : groups) {
    size_t turn = 0;
    for (const uint32_t rank : group.ranks) turn = std::max(turn, turn_of[rank]);
    if ((group.item->stream == first) != (turn % 2 == 0)) ++turn;
    for (const uint32_t rank : group.ranks) turn_of[rank] = turn;
    turns.resize(std::max(turns.size(), turn + 1));
    turns[turn].push_back(group);
  }
  return turns;
}

void put_ordered(const Groups& groups, const RankSet& all, int depth, std::vector<Column>& out) {
  Groups between;
  const auto put_between = [&] {
    if (between.empty()) return;
    for (const Groups& turn : turns_of(std::exchange(between, {})))
      if (!turn.empty()) put_blocks(turn, depth, out);
  };
  for (const Group& group : groups) {
    if (group.ranks != all) {
      between.push_back(group);
      continue;
    }
    put_between();
    put(group, out);
  }
  put_between();
}

}  // namespace

std::vector<Column> in_blocks(const std::vector<Column>& columns, const RankSet& target) {
  std::vector<Column> out;
  out.reserve(columns.size());
  Groups lines;
  for (const Column& column : columns) {
    const bool all_lines = std::all_of(column.begin(), column.end(), [](const Group& group) {
      return group.item->kind == Item::Kind::kLine;
    });
    if (all_lines) {
      lines.insert(lines.end(), column.begin(), column.end());
      continue;
    }
    put_ordered(std::exchange(lines, {}), target, 0, out);
    out.push_back(column);
  }
  put_ordered(lines, target, 0, out);
  return out;
}

}  // namespace sk::control
