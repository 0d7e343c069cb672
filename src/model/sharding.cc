#include "model/sharding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace heddle {
namespace {

// Where the letter stands in the operand, or replicated.
ShardState StateOfLetter(const Operand& operand, const AxisRule& rule) {
  const size_t dim = operand.letters.find(rule.letter);
  if (dim == std::string::npos) return ShardState::Replicated();
  return ShardState::Sharded(static_cast<int>(dim), rule.ratios);
}

}  // namespace

std::vector<AxisRule> RulesOf(const Op& op) {
  std::vector<AxisRule> rules = {{}};
  // Of an opaque op nothing is known but that samples are independent, whatever its letters.
  const std::string divisible = op.kind == OpKind::kOpaque ? "b" : op.letters;
  for (const char letter : divisible) {
    const bool has = op.IndexOf(letter) != std::string::npos;
    if (has && std::islower(static_cast<unsigned char>(letter)) != 0) {
      rules.push_back({letter, 0, 0});
    }
  }
  const OpKindInfo& info = InfoOf(op.kind);
  const auto all = static_cast<uint8_t>((1U << op.inputs.size()) - 1U);
  switch (info.linearity) {
    case Linearity::kNone:
      break;
    case Linearity::kAdditive:
      rules.push_back({0, 0, all});
      break;
    case Linearity::kMultilinear:
      for (uint8_t bit = 1; bit != 0 && bit <= all; bit = static_cast<uint8_t>(bit << 1)) {
        if ((info.linear_in & bit) != 0) rules.push_back({0, 0, bit});
      }
      break;
  }
  return rules;
}

ShardState InputState(const Op& op, size_t k, const AxisRule& rule) {
  if (rule.letter != 0) return StateOfLetter(op.inputs[k], rule);
  return (rule.partial >> k & 1U) != 0 ? ShardState::Partial() : ShardState::Replicated();
}

ShardState OutputState(const Op& op, size_t k, const AxisRule& rule) {
  if (rule.letter != 0) {
    const ShardState state = StateOfLetter(op.outputs[k], rule);
    return state.kind == ShardKind::kSharded ? state : ShardState::Partial();
  }
  return rule.partial != 0 ? ShardState::Partial() : ShardState::Replicated();
}

Layout InputLayout(const Op& op, size_t k, const OpRule& rule) {
  return {InputState(op, k, rule[0]), InputState(op, k, rule[1])};
}

Layout OutputLayout(const Op& op, size_t k, const OpRule& rule) {
  return {OutputState(op, k, rule[0]), OutputState(op, k, rule[1])};
}

std::string NameOf(const ShardState& state) {
  switch (state.kind) {
    case ShardKind::kReplicated:
      return "R";
    case ShardKind::kPartial:
      return "P";
    case ShardKind::kSharded:
      break;
  }
  return state.ratios == 0 ? fmt::format("S{}", state.dim)
                           : fmt::format("S{}'{}", state.dim, state.ratios);
}

std::string NameOf(const AxisRule& rule) {
  if (rule.letter != 0) {
    return rule.ratios == 0 ? std::string(1, rule.letter)
                            : fmt::format("{}'{}", rule.letter, rule.ratios);
  }
  if (rule.partial == 0) return "-";
  std::string name = "P";
  for (size_t k = 0; rule.partial >> k != 0; ++k) {
    if ((rule.partial >> k & 1U) != 0) name += std::to_string(k);
  }
  return name;
}

std::string NameOf(const OpRule& rule) { return NameOf(rule[0]) + "." + NameOf(rule[1]); }

std::string NameOf(const Layout& layout) { return NameOf(layout[0]) + "." + NameOf(layout[1]); }

}  // namespace heddle
