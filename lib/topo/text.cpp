#include "lib/topo/text.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

namespace sk::topo {
namespace {

constexpr std::string_view kHeader = "topology 1";

std::string quote(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

// Words of one line, each with its column.
class Line {
 public:
  Line(std::string_view text, size_t number) : text_(text), number_(number) {}

  Status wrong(const std::string& what) const { return wrong_at(at_, what); }
  Status wrong_at(size_t at, const std::string& what) const {
    return error(SK_ERR_INVALID_ARGUMENT, "line {}, column {}: {}", number_, at + 1, what);
  }

  bool at_end() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
    return at_ == text_.size() || text_[at_] == '#';
  }
  size_t at() const { return at_; }

  // Up to the next blank, '=' or '#'.
  std::string_view word() {
    const size_t start = at_;
    while (at_ < text_.size() &&
           std::string_view(" \t=#\"").find(text_[at_]) == std::string::npos) {
      ++at_;
    }
    return text_.substr(start, at_ - start);
  }
  bool eat(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  template <typename Number>
  Result<Number> number(const char* what) {
    const size_t start = at_;
    const std::string_view digits = word();
    Number value{};
    const char* end = digits.data() + digits.size();
    const auto [stop, code] = std::from_chars(digits.data(), end, value);
    if (digits.empty() || code != std::errc() || stop != end) {
      return wrong_at(start, fmt::format("{} is \"{}\": it must be a number from {} to {}", what,
                                         digits.substr(0, 40), std::numeric_limits<Number>::min(),
                                         std::numeric_limits<Number>::max()));
    }
    return value;
  }

  Result<std::string> quoted(const char* what) {
    const size_t start = at_;
    if (!eat('"')) return wrong(fmt::format("{} must be in double quotes", what));
    std::string out;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"') return out;
      if (c != '\\') {
        out += c;
        continue;
      }
      const char escaped = at_ < text_.size() ? text_[at_++] : '\0';
      unsigned value = 0;
      if (escaped == '"' || escaped == '\\') {
        out += escaped;
      } else if (escaped == 'x' && at_ + 2 <= text_.size() &&
                 std::from_chars(&text_[at_], &text_[at_] + 2, value, 16).ptr == &text_[at_] + 2) {
        out += char(value);
        at_ += 2;
      } else {
        return wrong_at(at_ - 1, "after \\ there must be \", \\ or x and two hexadecimal digits");
      }
    }
    return wrong_at(start, fmt::format("the quotes of {} do not end", what));
  }

 private:
  std::string_view text_;
  size_t number_;
  size_t at_ = 0;
};

struct NodeKey {
  const char* name;
  Status (*read)(Line& line, Node& node);
};

const NodeKey kNodeKeys[] = {
    {"index",
     [](Line& line, Node& node) -> Status {
       SK_ASSIGN_OR_RETURN(node.index, line.number<int64_t>("index"));
       return {};
     }},
    {"level",
     [](Line& line, Node& node) -> Status {
       SK_ASSIGN_OR_RETURN(node.level, line.number<uint32_t>("level"));
       return {};
     }},
    {"threads",
     [](Line& line, Node& node) -> Status {
       SK_ASSIGN_OR_RETURN(node.threads, line.number<uint32_t>("threads"));
       return {};
     }},
    {"bytes",
     [](Line& line, Node& node) -> Status {
       SK_ASSIGN_OR_RETURN(node.bytes, line.number<uint64_t>("bytes"));
       return {};
     }},
    {"name",
     [](Line& line, Node& node) -> Status {
       SK_ASSIGN_OR_RETURN(node.name, line.quoted("name"));
       return {};
     }},
    {"address",
     [](Line& line, Node& node) -> Status {
       SK_ASSIGN_OR_RETURN(node.address, line.quoted("address"));
       return {};
     }},
};

Status parse_node(Line& line, Graph& graph) {
  line.at_end();
  const size_t id_at = line.at();
  SK_ASSIGN_OR_RETURN(const uint32_t id, line.number<uint32_t>("the node's number"));
  if (id != graph.nodes.size()) {
    return line.wrong_at(id_at, fmt::format("the node's number is {}: nodes come in order, so it "
                                            "must be {}",
                                            id, graph.nodes.size()));
  }
  if (graph.nodes.size() == kNodeCountMax) {
    return line.wrong_at(id_at, fmt::format("more than {} nodes", kNodeCountMax));
  }
  Node node;
  line.at_end();
  const size_t kind_at = line.at();
  const std::string_view kind = line.word();
  if (!kind_from_name(kind, &node.kind)) {
    return line.wrong_at(kind_at, fmt::format("\"{}\" is no kind of node", kind.substr(0, 40)));
  }
  unsigned seen = 0;
  while (!line.at_end()) {
    const size_t key_at = line.at();
    const std::string_view name = line.word();
    const auto* key = std::find_if(std::begin(kNodeKeys), std::end(kNodeKeys),
                                   [&](const NodeKey& k) { return name == k.name; });
    if (key == std::end(kNodeKeys)) {
      return line.wrong_at(key_at, fmt::format("a node has no \"{}\"", name.substr(0, 40)));
    }
    const unsigned bit = 1u << (key - std::begin(kNodeKeys));
    if ((seen & bit) != 0) return line.wrong_at(key_at, fmt::format("{} comes twice", name));
    seen |= bit;
    if (!line.eat('=')) return line.wrong(fmt::format("= must follow {}", name));
    SK_RETURN_IF_ERROR(key->read(line, node));
  }
  graph.nodes.push_back(std::move(node));
  return {};
}

Status parse_link(Line& line, Graph& graph) {
  Link link;
  line.at_end();
  SK_ASSIGN_OR_RETURN(link.a, line.number<uint32_t>("the link's first node"));
  line.at_end();
  SK_ASSIGN_OR_RETURN(link.b, line.number<uint32_t>("the link's second node"));
  line.at_end();
  const size_t kind_at = line.at();
  const std::string_view kind = line.word();
  if (!kind_from_name(kind, &link.kind)) {
    return line.wrong_at(kind_at, fmt::format("\"{}\" is no kind of link", kind.substr(0, 40)));
  }
  // Both are always there, in this order.
  for (const char* key : {"latency_ns", "bandwidth"}) {
    line.at_end();
    const size_t key_at = line.at();
    if (line.word() != key || !line.eat('=')) {
      return line.wrong_at(key_at, fmt::format("{}= must stand here", key));
    }
    if (key[0] == 'l') {
      SK_ASSIGN_OR_RETURN(link.latency_ns, line.number<uint32_t>(key));
    } else {
      SK_ASSIGN_OR_RETURN(link.bandwidth, line.number<uint64_t>(key));
    }
  }
  if (!line.at_end()) return line.wrong("nothing may follow the bandwidth");
  graph.links.push_back(link);
  return {};
}

}  // namespace

std::string dump(const Graph& graph) {
  std::string out(kHeader);
  out += '\n';
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    out += fmt::format("node {} {}", i, kind_name(node.kind));
    if (node.index != -1) out += fmt::format(" index={}", node.index);
    if (node.level != 0) out += fmt::format(" level={}", node.level);
    if (node.threads != 0) out += fmt::format(" threads={}", node.threads);
    if (node.bytes != 0) out += fmt::format(" bytes={}", node.bytes);
    if (!node.name.empty()) out += " name=" + quote(node.name);
    if (!node.address.empty()) out += " address=" + quote(node.address);
    out += '\n';
  }
  for (const Link& link : graph.links) {
    out += fmt::format("link {} {} {} latency_ns={} bandwidth={}\n", link.a, link.b,
                       kind_name(link.kind), link.latency_ns, link.bandwidth);
  }
  return out;
}

Result<Graph> parse(std::string_view text) {
  Graph graph;
  bool started = false;
  std::optional<LinkChecker> checker;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t newline = std::min(text.find('\n'), text.size());
    Line line(text.substr(0, newline), number);
    text.remove_prefix(std::min(newline + 1, text.size()));
    if (line.at_end()) continue;
    const size_t word_at = line.at();
    const std::string_view word = line.word();
    if (!started) {
      if (word != "topology" || line.at_end() || line.word() != "1" || !line.at_end()) {
        return line.wrong_at(word_at, "a topology starts with \"topology 1\"");
      }
      started = true;
    } else if (word == "node") {
      if (!graph.links.empty()) return line.wrong_at(word_at, "nodes come before links");
      SK_RETURN_IF_ERROR(parse_node(line, graph));
    } else if (word == "link") {
      if (!checker) checker.emplace(graph.nodes.size());
      SK_RETURN_IF_ERROR(parse_link(line, graph));
      const Status accepted = checker->accept(graph.links.back());
      if (!accepted.ok()) return line.wrong_at(word_at, "the link " + accepted.message());
    } else {
      return line.wrong_at(word_at, fmt::format("a line starts with \"node\" or \"link\", not "
                                                "\"{}\"",
                                                word.substr(0, 40)));
    }
  }
  if (!started) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "line 1, column 1: a topology starts with \"topology 1\", and the text is empty");
  }
  return graph;
}

}  // namespace sk::topo
