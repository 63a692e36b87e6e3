#include "api/admin/output.h"

#include <algorithm>
#include <vector>

#include <rapidjson/document.h>

#include "common/base/ascii.h"
#include "common/base/utf8.h"

namespace audiogen::api {
namespace {

// What people see of one value. Control characters of others' making never reach the terminal.
std::string cell(const rapidjson::Value& value) {
  if (value.IsNull()) {
    return "-";
  }
  if (value.IsBool()) {
    return value.GetBool() ? "yes" : "no";
  }
  std::string out(value.GetString(), value.GetStringLength());
  std::replace_if(out.begin(), out.end(), ascii::is_control, '?');
  return out;
}

std::string heading(const char* name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', ' ');
  return out;
}

// Lines of cells, each column as wide as its widest cell.
std::string aligned(const std::vector<std::vector<std::string>>& lines) {
  std::vector<std::size_t> widths;
  for (const auto& line : lines) {
    widths.resize(std::max(widths.size(), line.size()));
    for (std::size_t i = 0; i < line.size(); ++i) {
      widths[i] = std::max(widths[i], utf8_length(line[i]));
    }
  }
  std::string out;
  for (const auto& line : lines) {
    std::string text;
    for (std::size_t i = 0; i < line.size(); ++i) {
      text += line[i] + std::string(widths[i] - utf8_length(line[i]) + 2, ' ');
    }
    out += text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

}  // namespace

std::string for_people(const std::string& json) {
  rapidjson::Document document;
  document.Parse<rapidjson::kParseNumbersAsStringsFlag>(json.c_str());
  std::vector<std::vector<std::string>> members;
  std::string tables;
  for (const auto& [name, value] : document.GetObject()) {
    if (!value.IsArray()) {
      members.push_back({heading(name.GetString()), cell(value)});
      continue;
    }
    tables += (members.empty() && tables.empty() ? "" : "\n") + heading(name.GetString()) + ":";
    if (value.Empty()) {
      tables += " none\n";
      continue;
    }
    std::vector<std::vector<std::string>> lines(1);
    for (const auto& [column, unused] : value[0].GetObject()) {
      lines[0].push_back(heading(column.GetString()));
    }
    for (const auto& row : value.GetArray()) {
      lines.emplace_back();
      for (const auto& [column, field] : row.GetObject()) {
        lines.back().push_back(cell(field));
      }
    }
    tables += "\n" + aligned(lines);
  }
  return aligned(members) + tables;
}

}  // namespace audiogen::api
