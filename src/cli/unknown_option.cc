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

const CLI::App* Below(const CLI::App& command, std::string_view name) {
  for (const CLI::App* below : command.get_subcommands([](const CLI::App*) { return true; })) {
    if (below->get_name() == name) return below;
  }
  return nullptr;
}

// Those of the command and, since a command passes on what it does not know, of those above it.
const CLI::Option* FindIn(const CLI::App& command, const std::string& name) {
  for (const CLI::App* at = &command; at != nullptr; at = at->get_parent()) {
    if (const CLI::Option* option = at->get_option_no_throw(name)) return option;
  }
  return nullptr;
}

// Without the dashes.
std::vector<std::string> LongNames(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* at = &command; at != nullptr; at = at->get_parent()) {
    for (const CLI::Option* option : at->get_options()) {
      names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
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
std::vector<std::string> OwnersOf(const CLI::App& app, const std::string& name) {
  std::vector<std::string> owners;
  for (const CLI::App* below : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (below->get_option_no_throw(name) != nullptr) owners.push_back(PathOf(*below));
    const std::vector<std::string> deeper = OwnersOf(*below, name);
    owners.insert(owners.end(), deeper.begin(), deeper.end());
  }
  return owners;
}

Error UnknownOption(const CLI::App& app, const CLI::App& command, const std::string& name) {
  const std::string path = PathOf(command);
  const std::string called = path.empty() ? "heddle" : "heddle " + path;
  std::string hint;
  if (const auto meant = LikelyMeant(name.substr(name.find_first_not_of('-')), LongNames(command));
      meant && IsLong(name)) {
    hint = fmt::format("did you mean --{}? ", *meant);
  } else if (const std::vector<std::string> owners = OwnersOf(app, name); !owners.empty()) {
    hint = fmt::format("{} has it; ", Join(owners, ", "));
  }
  return Usage(fmt::format("{}unknown option {}", path.empty() ? "" : path + ": ", name),
               fmt::format("{}{} --help lists all", hint, called));
}

}  // namespace

std::string PathOf(const CLI::App& command) {
  if (command.get_parent() == nullptr) return "";
  const std::string above = PathOf(*command.get_parent());
  return above.empty() ? command.get_name() : above + " " + command.get_name();
}

std::optional<Error> FindUnknownOption(const CLI::App& app, int argc, const char* const* argv) {
  const CLI::App* command = &app;
  for (int k = 1; k < argc; ++k) {
    const std::string_view word = argv[k];
    if (word == "--") break;
    if (!LooksLikeOption(word)) {
      if (const CLI::App* below = Below(*command, word)) command = below;
      continue;
    }
    const std::string name = NameIn(word);
    const CLI::Option* option = FindIn(*command, name);
    if (option == nullptr) return UnknownOption(app, *command, name);
    const bool holds_value =
        IsLong(word) ? word.find('=') != std::string_view::npos : word.size() > 2;
    if (option->get_items_expected_min() > 0 && !holds_value) ++k;  // its value, whatever it is
  }
  return std::nullopt;
}

}  // namespace heddle
