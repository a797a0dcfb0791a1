#include "tools/sk_kernel/magic_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "tools/sk_kernel/content.h"

namespace sk::kernel {
namespace {

constexpr std::string_view kFacts = "application/vnd.superkernel.facts+json";

double number_of(const Json& facts, const char* name) {
  const auto found = facts.find(name);
  return found != facts.end() && found->is_number() ? found->get<double>() : 0;
}

std::string gigabytes(double bytes) {
  return bytes > 0 ? fmt::format("{:.1f} GiB", bytes / (1 << 30)) : "";
}

std::string processor_of(const Json& facts) {
  std::string name = text_of(facts, "cpu");
  const auto cores = static_cast<int64_t>(number_of(facts, "cores"));
  if (cores == 0) return name;
  return fmt::format("{} × {}", cores, name.empty() ? "core" : name);
}

// "2 × NVIDIA H100 (79.6 GiB)": alike ones together, in the order of the machine.
std::string gpus_of(const Json& facts) {
  const auto gpus = facts.find("gpus");
  if (gpus == facts.end() || !gpus->is_array() || gpus->empty()) return "none";
  std::vector<std::pair<std::string, int>> kinds;
  for (const Json& gpu : *gpus) {
    if (!gpu.is_object()) continue;
    std::string name = text_of(gpu, "name");
    if (const std::string memory = gigabytes(number_of(gpu, "memory_bytes")); !memory.empty())
      name += fmt::format(" ({})", memory);
    const auto same = [&](const auto& kind) { return kind.first == name; };
    const auto known = std::find_if(kinds.begin(), kinds.end(), same);
    if (known == kinds.end())
      kinds.emplace_back(name, 1);
    else
      ++known->second;
  }
  std::string text;
  for (const auto& [name, count] : kinds)
    text += fmt::format("{}{} × {}", text.empty() ? "" : ", ", count, name);
  return text;
}

std::string cuda_of(const Json& facts) {
  const std::string cuda = text_of(facts, "cuda"), driver = text_of(facts, "driver");
  if (cuda.empty()) return "";
  return driver.empty() ? cuda : fmt::format("{} (driver {})", cuda, driver);
}

std::string version_of(const Json& facts, const std::string& name) {
  const auto versions = facts.find("versions");
  return versions != facts.end() && versions->is_object() ? text_of(*versions, name.c_str()) : "";
}

// Those that any group has: ours first, then by name.
std::vector<std::string> version_names(const std::vector<RankFacts>& groups) {
  std::vector<std::string> names = {"libsk"};
  std::set<std::string> seen;
  for (const RankFacts& group : groups) {
    const auto versions = group.facts.find("versions");
    if (versions == group.facts.end() || !versions->is_object()) continue;
    for (const auto& [name, version] : versions->items())
      if (name != "libsk" && version.is_string()) seen.insert(name);
  }
  names.insert(names.end(), seen.begin(), seen.end());
  return names;
}

}  // namespace

void collect(std::vector<RankFacts>& facts, const sk_event& event) {
  if (event.display == SK_DISPLAY_CLEAR || event.display == SK_DISPLAY_CLEAR_WAIT)
    return facts.clear();
  for (uint64_t i = 0; i < event.mime_count; ++i) {
    const sk_mime& mime = event.mimes[i];
    if (mime.type != kFacts) continue;
    const std::string_view text(static_cast<const char*>(mime.data), mime.bytes);
    Json parsed = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (parsed.is_object()) facts.push_back({event.ranks, std::move(parsed)});
  }
}

Table facts_table(const std::vector<RankFacts>& groups, int32_t world_size) {
  Table table;
  table.head = {"ranks"};
  for (const RankFacts& group : groups)
    table.head.push_back(groups.size() == 1 ? fmt::format("{} of {}", group.ranks, world_size)
                                            : group.ranks);
  const auto add = [&](const std::string& name, const auto& value_of) {
    std::vector<std::string> row = {name};
    bool any = false;
    for (const RankFacts& group : groups) {
      row.push_back(value_of(group.facts));
      any = any || !row.back().empty();
    }
    if (any) table.rows.push_back(std::move(row));
  };
  add("host", [](const Json& facts) { return text_of(facts, "host"); });
  add("processor", processor_of);
  add("memory", [](const Json& facts) { return gigabytes(number_of(facts, "memory_bytes")); });
  add("GPUs", gpus_of);
  add("CUDA", cuda_of);
  add("CUDA_VISIBLE_DEVICES",
      [](const Json& facts) { return text_of(facts, "cuda_visible_devices"); });
  for (const std::string& name : version_names(groups))
    add(name, [&](const Json& facts) { return version_of(facts, name); });
  return table;
}

}  // namespace sk::kernel
