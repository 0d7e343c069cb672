#include "cli/unknown_option.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"

namespace heddle {
namespace {

bool LooksLikeOption(std::string_view word) {
  if (word.size() < 2 || word[0] != '-') return false;
  if (word[1] == '-') return word.size() > 2;
  return std::isalpha(static_cast<unsigned char>(word[1])) != 0;  // not -1, a number
}

bool IsLong(std::string_view word) { return word.starts_with("--"); }

// "--batch" of "--batch=8", "-o" of "-oplan.json".
std::string NameIn(std::string_view word) {
  return std::string(IsLong(word) ? word.substr(0, word.find('=')) : word.substr(0, 2));
}

std::optional<Command> Below(const Command& command, std::string_view name) {
  for (const Command& below : command.below()) {
    if (below.name() == name) return below;
  }
  return std::nullopt;
}

// Of the command and those above it, without the dashes.
std::vector<std::string> LongNames(const Command& command) {
  std::vector<std::string> names;
  for (std::optional<Command> at = command; at; at = at->above()) {
    for (const Option& option : at->options()) {
      for (std::string& name : option.long_names()) names.push_back(std::move(name));
    }
  }
  return names;
}

// A likely typo of one, a part of one, or one with words around it.
std::optional<std::string> LikelyMeant(const std::string& name,
                                       const std::vector<std::string>& candidates) {
  constexpr size_t kLeastPart = 3;
  if (name.size() >= kLeastPart) {
    if (const auto nearest = NearestName(name, candidates)) return nearest;
  }
  const auto related = [&](const std::string& candidate) {
    const std::string& shorter = candidate.size() < name.size() ? candidate : name;
    const std::string& longer = candidate.size() < name.size() ? name : candidate;
    return shorter.size() >= kLeastPart && longer.find(shorter) != std::string::npos;
  };
  const auto found = std::find_if(candidates.begin(), candidates.end(), related);
  return found == candidates.end() ? std::nullopt : std::optional(*found);
}

// Other commands that have it.
std::vector<std::string> OwnersOf(const Command& root, const std::string& name) {
  std::vector<std::string> owners;
  for (const Command& below : root.below()) {
    if (below.Find(name)) owners.push_back(below.path());
    const std::vector<std::string> deeper = OwnersOf(below, name);
    owners.insert(owners.end(), deeper.begin(), deeper.end());
  }
  return owners;
}

Error UnknownOption(const Command& root, const Command& command, const std::string& name) {
  const std::string path = command.path();
  const std::string called = path.empty() ? "heddle" : "heddle " + path;
  std::string hint;
  if (const auto meant = LikelyMeant(name.substr(name.find_first_not_of('-')), LongNames(command));
      meant && IsLong(name)) {
    hint = fmt::format("did you mean --{}? ", *meant);
  } else if (const std::vector<std::string> owners = OwnersOf(root, name); !owners.empty()) {
    hint = fmt::format("{} has it; ", Join(owners, ", "));
  }
  return Usage(fmt::format("{}unknown option {}", path.empty() ? "" : path + ": ", name),
               fmt::format("{}{} --help lists all", hint, called));
}

}  // namespace

std::optional<Error> FindUnknownOption(const Command& root, int argc, const char* const* argv) {
  Command command = root;
  for (int k = 1; k < argc; ++k) {
    const std::string_view word = argv[k];
    if (word == "--") break;
    if (!LooksLikeOption(word)) {
      if (const auto below = Below(command, word)) command = *below;
      continue;
    }
    const std::string name = NameIn(word);
    const std::optional<Option> option = command.FindUpwards(name);
    if (!option) return UnknownOption(root, command, name);
    const bool holds_value =
        IsLong(word) ? word.find('=') != std::string_view::npos : word.size() > 2;
    if (option->needs_value() && !holds_value) ++k;  // its value, whatever it is
  }
  return std::nullopt;
}

}  // namespace heddle
