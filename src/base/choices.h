// Choices: the names of an enum's values, in one table that everything reads and writes them by.
//
//   template <>
//   struct Choices<LinkModel> {
//     static constexpr Choice<LinkModel> kTable[] = {{LinkModel::kShared, "shared"}, …};
//   };
//
//   NameOf(LinkModel::kShared)                      // "shared"
//   ParseChoice<LinkModel>("exclusive")             // a value, or nothing
//   ChoiceText<LinkModel>()                         // "shared, exclusive or channels"
//   ReadChoice<LinkModel>("--links", "shard")       // an error: unknown, did you mean, the choices
//
// Invariant: every value that the program makes is in the table.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace heddle {

template <class Enum>
struct Choice {
  Enum value;
  std::string_view name;         // as written in files
  std::string_view spoken = {};  // as people write it, where that is something else
  bool offered = true;           // to people; others are for files alone
};

template <class Enum>
struct Choices;

template <class Enum>
concept HasChoices = requires {
  Choices<Enum>::kTable;
};

template <HasChoices Enum>
constexpr std::string_view NameOf(Enum value) {
  for (const Choice<Enum>& choice : Choices<Enum>::kTable) {
    if (choice.value == value) return choice.name;
  }
  return "unknown";
}

template <HasChoices Enum>
constexpr std::optional<Enum> ParseChoice(std::string_view name) {
  for (const Choice<Enum>& choice : Choices<Enum>::kTable) {
    if (choice.name == name || (!choice.spoken.empty() && choice.spoken == name)) {
      return choice.value;
    }
  }
  return std::nullopt;
}

// What people may write, in the table's order.
template <HasChoices Enum>
std::vector<std::string> ChoiceNames() {
  std::vector<std::string> names;
  for (const Choice<Enum>& choice : Choices<Enum>::kTable) {
    if (choice.offered) names.emplace_back(choice.spoken.empty() ? choice.name : choice.spoken);
  }
  return names;
}

// "a, b or c".
std::string Alternatives(const std::vector<std::string>& names);

template <HasChoices Enum>
std::string ChoiceText() {
  return Alternatives(ChoiceNames<Enum>());
}

// `where` is a file's field or an option.
Error UnknownChoice(std::string where, std::string_view name,
                    const std::vector<std::string>& known);

template <HasChoices Enum>
Result<Enum> ReadChoice(std::string where, std::string_view name) {
  if (const auto value = ParseChoice<Enum>(name)) return *value;
  return UnknownChoice(std::move(where), name, ChoiceNames<Enum>());
}

// The same of what people may write: values that are for files alone are unknown.
template <HasChoices Enum>
Result<Enum> ReadOffered(std::string where, std::string_view name) {
  for (const Choice<Enum>& choice : Choices<Enum>::kTable) {
    if (choice.offered || choice.name != name) continue;
    return UnknownChoice(std::move(where), name, ChoiceNames<Enum>());
  }
  return ReadChoice<Enum>(std::move(where), name);
}

}  // namespace heddle
