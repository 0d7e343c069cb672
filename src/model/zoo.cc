#include "model/zoo.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "model/autodiff.h"
#include "model/graph_builder.h"
#include "model/model_spec.h"
#include "model/zoo_families.h"

namespace heddle {
namespace {

constexpr int64_t kMostLayers = 4096;
constexpr int64_t kMostExtent = int64_t{1} << 20;
constexpr double kMostElements = 1e15;  // of one tensor: its bytes must fit 64 bits

Status CheckValue(const std::string& where, const std::string& key, int64_t value) {
  const int64_t most = key == "layers" ? kMostLayers : kMostExtent;
  const bool flag = key == "tied";
  if (value >= (flag ? 0 : 1) && value <= (flag ? 1 : most)) return Ok();
  return BadInput(where, fmt::format("{} = {} is out of range", key, value),
                  fmt::format("expected {} to {}", flag ? 0 : 1, flag ? 1 : most));
}

}  // namespace

const std::vector<ZooEntry>& Zoo() {
  // GPT-2's dimensions: Radford et al. 2019; vocabulary 50257, 1024 positions.
  static const std::vector<ZooEntry> entries = {
      {"mlp",
       "multilayer perceptron with GELU",
       WriteMlp,
       {{"layers", 4}, {"inputs", 784}, {"hidden", 4096}, {"outputs", 10}}},
      {"gpt",
       "GPT-2: decoder-only transformer, tied output",
       WriteGpt,
       {{"layers", 12},
        {"hidden", 768},
        {"heads", 12},
        {"vocab", 50257},
        {"seq", 1024},
        {"tied", 1}}},
      {"tiny-mlp",
       "an MLP that trains in milliseconds",
       WriteMlp,
       {{"layers", 4}, {"inputs", 32}, {"hidden", 64}, {"outputs", 10}}},
      {"tiny-gpt",
       "a GPT that trains in milliseconds",
       WriteGpt,
       {{"layers", 4}, {"hidden", 64}, {"heads", 4}, {"vocab", 256}, {"seq", 64}, {"tied", 1}}},
  };
  return entries;
}

Result<Graph> BuildModel(std::string_view text, const ModelOptions& options) {
  HEDDLE_ASSIGN(const ModelSpec spec, ParseModelSpec(text));
  const std::string where = fmt::format("model \"{}\"", text);
  const auto entry = std::find_if(Zoo().begin(), Zoo().end(),
                                  [&](const ZooEntry& e) { return e.name == spec.name; });
  if (entry == Zoo().end()) {
    std::vector<std::string> names;
    for (const ZooEntry& e : Zoo()) names.push_back(e.name);
    return BadInput(where, "no such model in the zoo", SuggestName(spec.name, names));
  }
  ModelParameters parameters = entry->defaults;
  for (const auto& [key, value] : spec.values) {
    if (!parameters.contains(key)) {
      std::vector<std::string> keys;
      for (const auto& item : parameters) keys.push_back(item.first);
      return BadInput(where, fmt::format("{} has no parameter \"{}\"", spec.name, key),
                      SuggestName(key, keys));
    }
    HEDDLE_RETURN_IF_ERROR(CheckValue(where, key, value));
    parameters[key] = value;
  }
  GraphBuilder builder(options.batch, options.dtype);
  Status written = entry->write_forward(builder, parameters);
  if (!written.ok()) return BadInput(where, written.error().what, written.error().hint);
  for (const Tensor& tensor : builder.tensors()) {
    double elements = 1;
    for (const int64_t extent : tensor.shape) elements *= static_cast<double>(extent);
    if (elements > kMostElements) {
      return BadInput(where, fmt::format("tensor {} is too large", tensor.name),
                      "choose smaller dimensions");
    }
  }
  AddTraining(builder, options.optimizer);
  return builder.Finish();
}

}  // namespace heddle
