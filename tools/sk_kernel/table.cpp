#include "tools/sk_kernel/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/html.h"
#include "tools/sk_kernel/front.h"

namespace sk::kernel {

std::string Table::plain() const {
  std::vector<std::vector<std::string>> lines = rows;
  if (!head.empty()) lines.insert(lines.begin(), head);
  std::vector<size_t> width;
  for (const auto& line : lines) {
    width.resize(std::max(width.size(), line.size()));
    for (size_t i = 0; i < line.size(); ++i)
      width[i] = std::max<size_t>(width[i], code_points_in(line[i]));
  }
  std::string out;
  for (const auto& line : lines) {
    std::string text;
    for (size_t i = 0; i < line.size(); ++i) {
      const std::string pad(width[i] - code_points_in(line[i]), ' ');
      const bool right = numbers_to_right && i > 0;
      text += (i == 0 ? "" : "  ") + (right ? pad + line[i] : line[i] + pad);
    }
    out += text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  }
  out += foot;
  if (foot.empty() && !out.empty()) out.pop_back();
  return out;
}

std::string Table::html() const {
  const std::string align = numbers_to_right ? " style=\"text-align:right\"" : "";
  std::string out = "<table>";
  const auto add = [&](const std::vector<std::string>& line, const char* tag) {
    out += "<tr>";
    for (size_t i = 0; i < line.size(); ++i) {
      const std::string cell = i == 0 ? "th" : tag;
      out += fmt::format("<{0}{1}>{2}</{0}>", cell, i == 0 ? "" : align, html_escape(line[i]));
    }
    out += "</tr>";
  };
  if (!head.empty()) add(head, "th");
  for (const auto& row : rows) add(row, "td");
  out += "</table>";
  if (!foot.empty()) out += "<p>" + html_escape(foot) + "</p>";
  return out;
}

}  // namespace sk::kernel
