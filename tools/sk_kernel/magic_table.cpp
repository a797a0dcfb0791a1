#include "tools/sk_kernel/magic_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "tools/sk_kernel/table.h"

namespace sk::kernel {

const std::vector<MagicEntry>& magic_table() {
  static const std::vector<MagicEntry> table = {
      {"%%on", "RANKS", "runs the rest of the cell on these ranks",
       "RANKS is a set such as 0,2-5 or 0-62:2, all but a set as in !0, or a word: alive (every "
       "rank that can run cells), local "
       "(those on the notebook's host), host:NAME, all. It stands in the first line of the cell; "
       "blank lines, comments and magics of this list may stand before it."},
      {"%%rank", "N", "runs the rest of the cell on one rank", "The same as %%on N."},
      {"%%px", "[--targets RANKS]", "runs the rest of the cell on all ranks, or on these",
       "As ipyparallel spells it: %%px is %%on all, %%px --targets RANKS is %%on RANKS."},
      {"%welcome", "", "shows the version, the ranks and how to begin",
       "It runs nothing on the ranks, so it answers whatever state they are in."},
      {"%info", "", "shows the ranks' machines and the versions of libraries",
       "One table of ranks, hosts, processors, memory, GPUs and versions; ranks that differ get a "
       "column each. It starts no GPU runtime and imports nothing."},
      {"%hostname", "", "prints the host's name on each rank", "Ranks of one host share a line."},
      {"%reset", "", "forgets your names on every rank",
       "It asks nothing. The names that every cell finds (rank, local_rank, world_size, comm, sk) "
       "stay, and so do imported modules in memory, open files and other processes. -f, which asks "
       "IPython not to ask, is accepted."},
      {"%shutdown", "", "ends the ranks, and frees what they hold",
       "The notebook stays open and its outputs stay; what the ranks had in memory, on GPUs too, "
       "is "
       "gone. %reconnect starts new ranks. To end the kernel itself, use the notebook's menu."},
      {"%reconnect", "", "starts new ranks after %shutdown",
       "They begin as those of a fresh kernel do. With ranks there it does nothing."},
      {"%sk status", "", "shows in which state the ranks are, and why",
       "Alone in a cell it is answered at once, also while another cell runs."},
      {"%sk stack", "[RANKS]", "shows where ranks are in their code",
       "Ranks at the same place are put together. Alone in a cell it is answered at once, also "
       "while "
       "another cell runs: so it tells where a cell hangs."},
      {"%sk revive", "[RANKS]", "starts dead and stuck ranks again",
       "Without RANKS all of them. A rank that comes back has nothing in its memory but what a "
       "fresh "
       "kernel has; the others keep what they have."},
      {"%sk preload", "[MODULES | none]", "shows which modules ranks share, or chooses them",
       "A shared module is imported once, before the ranks are there, and its memory is there "
       "once; "
       "import then takes no time. With names (numpy,pandas or apart by blanks) it chooses what "
       "the next start shares: of this kernel, after a restart or %shutdown and %reconnect, until "
       "it is shut down. sk install --preload keeps a choice for every notebook. A module whose "
       "import leaves threads, processes or an open GPU behind is left out, with a sentence."},
      {"%sk seed", "N", "seeds the random generators on every rank",
       "Rank r gets N + r: random.seed(), numpy.random.seed() and torch.manual_seed(), also where "
       "NumPy or PyTorch is imported later. Without it each rank draws numbers of its own."},
      {"%sk tag", "set|none|spec|host", "chooses how lines of some ranks are marked",
       "set: [0-3,5] and the text, alike lines once; the default. none: no mark. spec: [rank    3] "
       "before each line of each rank, rank by rank, nothing put together. host: as set, with the "
       "host's name. Alone it tells what is chosen. It holds from the next code on."},
      {"%sk log", "[CELL [RANKS]] [> FILE]",
       "shows all that a cell printed, or writes it to a file",
       "CELL is the number in In[ ]; without it, the last cell that ran code. Of one rank the text "
       "comes as the rank printed it, of several merged, but nothing is left out. The notebook "
       "gets "
       "the first MiB, a file all of it."},
      {"%sk show", "RANK [CELL]", "shows the displays of one rank, as the rank made them",
       "For pictures that are small in a sheet of many ranks. CELL as in %sk log."},
      {"%sk time", "", "shows what the last cell took on each rank",
       "Wall-clock and processor time as measured on the ranks (processor time counts all threads, "
       "and children that were waited for), the slowest rank, and the skew: how much longer it "
       "took "
       "than the fastest. The same numbers are in the metadata of the cell's reply."},
      {"%sk", "[VERB]", "lists all magics, or does what the verb says",
       "%sk VERB --help, %sk help VERB and %sk VERB? show the help of one."},
  };
  return table;
}

const MagicEntry* find_magic(std::string_view typed) {
  const auto& table = magic_table();
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const MagicEntry& entry) { return typed == entry.name; });
  return found == table.end() ? nullptr : &*found;
}

size_t slips(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1,
                             cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// The part of a name that a slip can be in: without "%", "%%" or "%sk ".
std::string_view core_of(std::string_view name) {
  const size_t space = name.find(' ');
  return space != std::string_view::npos ? name.substr(space + 1)
                                         : name.substr(name.find_first_not_of('%'));
}

bool is_near(std::string_view typed, std::string_view known, bool of_ours) {
  if (typed == known) return true;  // They differ in capital letters.
  // Behind %sk stands nothing of the language, so there is no harm in a guess.
  const size_t allowed = known.size() >= 6 || (of_ours && known.size() >= 4) ? 2 : 1;
  if (typed.size() > 40 || slips(typed, known) > allowed) return false;
  if (known.size() > 2 || of_ours) return true;
  return typed.size() == known.size() + 1
             ? typed.find(known[0]) != std::string_view::npos &&
                   typed.find(known[1]) != std::string_view::npos
             : typed.size() == 2 && typed[0] == known[1] && typed[1] == known[0];
}

// A bar would end a cell of a Markdown table, also within code.
std::string in_a_table(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
    text.insert(at, 1, '\\');
  return text;
}

}  // namespace

std::string near_magic(std::string_view typed) {
  if (typed == "%pinfo") return "";  // IPython's, and a letter away from ours.
  const std::string small = lower(typed);
  if (small.find_first_not_of("% ") == std::string::npos) return "";
  const bool of_ours = small.starts_with("%sk ");
  std::string best;
  size_t best_slips = SIZE_MAX;
  for (const MagicEntry& entry : magic_table()) {
    const std::string_view name = entry.name;
    if (name == "%sk" || name.starts_with("%%") != small.starts_with("%%") ||
        name.starts_with("%sk ") != of_ours)
      continue;
    const size_t distance = slips(core_of(small), core_of(name));
    if (!is_near(core_of(small), core_of(name), of_ours) || distance >= best_slips) continue;
    best = name;
    best_slips = distance;
  }
  return best;
}

HelpText magic_help(std::string_view typed) {
  HelpText help;
  if (const MagicEntry* entry = find_magic(typed)) {
    const std::string usage =
        fmt::format("{}{}{}", entry->name, *entry->arguments == '\0' ? "" : " ", entry->arguments);
    help.markdown = fmt::format("`{}` {}.\n\n{}", usage, entry->summary, entry->help);
    help.plain = fmt::format("{}: {}.\n{}", usage, entry->summary, entry->help);
    return help;
  }
  help.markdown = "| magic | what it does |\n|---|---|\n";
  Table table;
  for (const MagicEntry& entry : magic_table()) {
    const std::string usage =
        fmt::format("{}{}{}", entry.name, *entry.arguments == '\0' ? "" : " ", entry.arguments);
    help.markdown += fmt::format("| `{}` | {} |\n", in_a_table(usage), entry.summary);
    table.rows.push_back({usage, entry.summary});
  }
  help.markdown += "\n`%sk help NAME` tells more about one of them.";
  help.plain = table.plain() + "\n\n%sk help NAME tells more about one of them.";
  return help;
}

}  // namespace sk::kernel
