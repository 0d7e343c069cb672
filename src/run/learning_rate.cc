#include "run/learning_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>
#include <vector>

#include "base/text.h"

namespace heddle {
namespace {

// In the order of Decay.
const std::vector<std::string> kDecays = {"constant", "linear", "cosine"};
const std::vector<std::string> kKeys = {"warmup", "floor"};
constexpr int64_t kMostSteps = int64_t{1} << 50;

Status SetKey(std::string_view key, std::string_view value, const std::string& where,
              LearningRate& rate) {
  const std::string found = fmt::format("{} = \"{}\"", key, value);
  if (key == "warmup") {
    const auto steps = ParseInteger(value);
    if (!steps || *steps < 0 || *steps > kMostSteps) {
      return BadInput(where, found, "expected a number of steps, as in warmup=100");
    }
    rate.warmup = *steps;
    return Ok();
  }
  if (key != "floor") {
    return BadInput(where, fmt::format("no key \"{}\"", key), SuggestName(key, kKeys));
  }
  if (rate.decay == Decay::kConstant) {
    return BadInput(where, "a constant rate has no floor",
                    "leave it out, or choose linear or cosine");
  }
  const auto fraction = ParseReal(value);
  if (!fraction || !(*fraction >= 0 && *fraction <= 1)) {
    return BadInput(where, found,
                    "expected a fraction of the base rate from 0 to 1, as in floor=0.1");
  }
  rate.floor = *fraction;
  return Ok();
}

}  // namespace

double LearningRate::At(int64_t step, int64_t total, double base) const {
  if (step < warmup) return base * static_cast<double>(step + 1) / static_cast<double>(warmup);
  if (decay == Decay::kConstant || total <= warmup) return base;
  const double progress =
      std::min(1.0, static_cast<double>(step - warmup) / static_cast<double>(total - warmup));
  const double left =
      decay == Decay::kLinear ? 1 - progress : (1 + std::cos(std::numbers::pi * progress)) / 2;
  return base * (floor + (1 - floor) * left);
}

std::string LearningRate::ToString() const {
  std::vector<std::string> keys;
  if (warmup != 0) keys.push_back(fmt::format("warmup={}", warmup));
  if (floor != 0) keys.push_back(fmt::format("floor={}", floor));
  const std::string& name = kDecays[static_cast<size_t>(decay)];
  return keys.empty() ? name : name + ":" + Join(keys, ",");
}

Result<LearningRate> ParseLearningRate(std::string_view spec) {
  const std::string where = fmt::format("learning rate \"{}\"", spec);
  const size_t colon = spec.find(':');
  const std::string_view name = spec.substr(0, colon);
  const auto known = std::find(kDecays.begin(), kDecays.end(), name);
  if (known == kDecays.end()) {
    return BadInput(where, fmt::format("no schedule \"{}\"", name), SuggestName(name, kDecays));
  }
  LearningRate rate;
  rate.decay = static_cast<Decay>(known - kDecays.begin());
  if (colon == std::string_view::npos) return rate;
  std::set<std::string_view> given;
  for (const std::string_view pair : SplitAt(spec.substr(colon + 1), ',')) {
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos) {
      return BadInput(where, fmt::format("\"{}\" is not key=value", pair),
                      "as in cosine:warmup=100,floor=0.1");
    }
    const std::string_view key = pair.substr(0, equals);
    HEDDLE_RETURN_IF_ERROR(SetKey(key, pair.substr(equals + 1), where, rate));
    if (!given.insert(key).second) {
      return BadInput(where, fmt::format("{} is given twice", key), "give it once");
    }
  }
  return rate;
}

}  // namespace heddle
