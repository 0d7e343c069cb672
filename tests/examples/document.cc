#include "examples/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <sstream>

namespace heddle {
namespace {

constexpr char kAnyLines[] = "…";
constexpr char kAnyEnd[] = " …";

// What planning and simulating took on this machine is not compared. Other seconds in JSON are, to
// six digits: the last ones are the processor's.
std::string SteadySeconds(const std::string& line) {
  static const std::regex kSeconds(R"re(("[a-z_]+_seconds": )([0-9.e-]+))re");
  std::smatch found;
  if (!std::regex_search(line, found, kSeconds)) return line;
  const std::string key = found[1];
  const bool of_this_machine = key == "\"planning_seconds\": " || key == "\"simulate_seconds\": ";
  const std::string value =
      of_this_machine ? "*" : fmt::format("{:.6g}", std::stod(found[2].str()));
  return found.prefix().str() + key + value + found.suffix().str();
}

// Without wall-clock times, which differ from run to run.
std::vector<std::string> WithoutTimings(const std::vector<std::string>& lines) {
  static const std::regex kSentence(R"((planned in +|plans? in )[0-9.e-]+( [mun]?s)?)");
  static const std::regex kLastColumn(R"( +[0-9.]+ [mun]?s$)");
  std::vector<std::string> masked;
  bool table = false;
  for (const std::string& line : lines) {
    if (line.ends_with("  planned in")) table = true;
    if (line.empty()) table = false;
    masked.push_back(table ? std::regex_replace(line, kLastColumn, " *")
                           : SteadySeconds(std::regex_replace(line, kSentence, "$1*")));
  }
  return masked;
}

bool LineShows(const std::string& expected, const std::string& line) {
  if (expected == line) return true;
  if (!expected.ends_with(kAnyEnd)) return false;
  return line.starts_with(expected.substr(0, expected.size() - std::string(kAnyEnd).size()));
}

}  // namespace

Document::Document(const std::string& markdown) {
  bool inside = false;
  int number = 0;
  between_.emplace_back();
  for (const std::string& line : LinesOf(markdown)) {
    ++number;
    const bool fence = line.starts_with("```");
    if (fence && !inside) {
      between_.back() += line + "\n";
      blocks_.push_back({line.substr(3), number, {}});
    } else if (inside && !fence) {
      blocks_.back().lines.push_back(line);
    } else {
      if (fence) between_.emplace_back();
      between_.back() += line + "\n";
    }
    if (fence) inside = !inside;
  }
  if (inside) between_.emplace_back();
}

std::string Document::Print() const {
  std::string text = between_[0];
  for (size_t k = 0; k < blocks_.size(); ++k) text += TextOf(blocks_[k].lines) + between_[k + 1];
  return text;
}

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string TextOf(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::vector<ShownCommand> CommandsOf(const FencedBlock& block) {
  std::vector<ShownCommand> commands;
  bool continues = false;
  for (const std::string& line : block.lines) {
    const bool starts = line.starts_with("$ ");
    if (starts) commands.emplace_back();
    if (commands.empty()) continue;
    if (starts || continues) {
      commands.back().text += (starts ? line.substr(2) : line) + "\n";
      commands.back().shown.push_back(line);
      continues = line.ends_with("\\");
    } else {
      commands.back().output.push_back(line);
    }
  }
  return commands;
}

bool Shows(const std::vector<std::string>& expected, const std::vector<std::string>& output) {
  const std::vector<std::string> pattern = WithoutTimings(expected);
  const std::vector<std::string> lines = WithoutTimings(output);
  // shows[j]: the pattern so far matches the first j lines.
  std::vector<bool> shows(lines.size() + 1, false);
  shows[0] = true;
  for (const std::string& wanted : pattern) {
    std::vector<bool> next(lines.size() + 1, false);
    for (size_t j = 0; j <= lines.size(); ++j) {
      if (wanted == kAnyLines) {
        next[j] = shows[j] || (j > 0 && next[j - 1]);
      } else if (j > 0) {
        next[j] = shows[j - 1] && LineShows(wanted, lines[j - 1]);
      }
    }
    shows = std::move(next);
  }
  return shows[lines.size()];
}

bool LeavesOut(const std::vector<std::string>& expected) {
  return std::any_of(expected.begin(), expected.end(), [](const std::string& line) {
    return line == kAnyLines || line.ends_with(kAnyEnd);
  });
}

}  // namespace heddle
