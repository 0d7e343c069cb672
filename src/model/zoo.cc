#include "model/zoo.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "model/autodiff.h"
#include "model/graph_builder.h"
#include "model/hf_model.h"
#include "model/model_spec.h"
#include "model/profiled_model.h"
#include "model/zoo_families.h"

namespace heddle {
namespace {

constexpr int64_t kMostLayers = 4096;
constexpr int64_t kMostExtent = int64_t{1} << 20;
constexpr double kMostElements = 1e15;  // of one tensor: its bytes must fit 64 bits

struct ParameterRange {
  std::string_view key;
  int64_t least, most;
};

// Keys with a range of their own; the others are extents.
constexpr ParameterRange kRanges[] = {
    {"layers", 1, kMostLayers},   {"blocks1", 1, kMostLayers},
    {"blocks2", 1, kMostLayers},  {"blocks3", 1, kMostLayers},
    {"blocks4", 1, kMostLayers},  {"every", 1, kMostLayers},
    {"capacity", 1, kMostExtent}, {"tied", 0, 1},
    {"dropout", 0, 90},           {"experts", 1, 4096},
};

Status CheckValue(const std::string& where, const std::string& key, int64_t value) {
  ParameterRange range{key, 1, kMostExtent};
  for (const ParameterRange& own : kRanges) {
    if (own.key == key) range = own;
  }
  if (value >= range.least && value <= range.most) return Ok();
  return BadInput(
      where, fmt::format("{} = {} is out of range", key, value),
      fmt::format("expected {} to {}", GroupDigits(range.least), GroupDigits(range.most)));
}

ModelParameters BertOf(int64_t layers, int64_t hidden, int64_t heads) {
  return {{"layers", layers}, {"hidden", hidden}, {"heads", heads}, {"vocab", 30522},
          {"seq", 512},       {"classes", 2},     {"dropout", 10}};
}

ModelParameters GptOf(int64_t layers, int64_t hidden, int64_t heads, int64_t vocab, int64_t seq) {
  return {{"layers", layers}, {"hidden", hidden}, {"heads", heads}, {"vocab", vocab},
          {"seq", seq},       {"tied", 1},        {"dropout", 0}};
}

ModelParameters WithExperts(ModelParameters bert, int64_t experts, int64_t every) {
  bert.insert({{"experts", experts}, {"every", every}, {"capacity", 125}});
  return bert;
}

ModelParameters SmallText() {
  return {{"hidden", 16}, {"heads", 2}, {"wide", 24}, {"vocab", 32}, {"seq", 8}, {"classes", 5}};
}

// Keys that an entry does not have are left out.
void AddSmallSizes(std::vector<ZooEntry>& entries) {
  const std::map<Status (*)(GraphBuilder&, const ModelParameters&), ModelParameters> sizes = {
      {WriteMlp, {{"inputs", 8}, {"hidden", 16}, {"outputs", 5}}},
      {WriteGpt, SmallText()},
      {WriteBert, SmallText()},
      {WriteTransformer, SmallText()},
      {WriteVgg19, {{"image", 32}, {"width", 2}, {"hidden", 8}, {"classes", 5}}},
      {WriteResnet, {{"image", 65}, {"width", 2}, {"classes", 5}}},
      {WriteInception, {{"image", 139}, {"width", 1}, {"classes", 5}}},
      {WriteBridge, {{"image", 6}, {"width", 4}, {"channels", 2}, {"classes", 5}}},
      {WriteVit, {{"hidden", 16}, {"heads", 2}, {"image", 12}, {"patch", 4}, {"classes", 5}}},
  };
  for (ZooEntry& entry : entries) {
    for (const auto& [key, value] : sizes.at(entry.write_forward)) {
      if (entry.defaults.contains(key)) entry.small[key] = value;
    }
  }
}

std::vector<ZooEntry> MakeEntries() {
  // Dimensions as published: GPT-2, Radford et al. 2019; BERT, Devlin et al. 2019; BERT-48 as in
  // DAPPLE, Fan et al. 2021; XLNet, Yang et al. 2019; the others where they are written.
  return {
      {"mlp",
       "multilayer perceptron with GELU",
       WriteMlp,
       {{"layers", 4}, {"inputs", 784}, {"hidden", 4096}, {"outputs", 10}, {"dropout", 0}}},
      {"vgg19",
       "VGG19: 16 convolutions, 3 large linear layers",
       WriteVgg19,
       {{"image", 224}, {"classes", 1000}, {"width", 64}, {"hidden", 4096}, {"dropout", 50}}},
      {"resnet152",
       "ResNet152: bottleneck blocks with batch normalisation",
       WriteResnet,
       {{"image", 224},
        {"classes", 1000},
        {"width", 64},
        {"blocks1", 3},
        {"blocks2", 8},
        {"blocks3", 36},
        {"blocks4", 3}}},
      {"inception-v3",
       "Inception-V3: branching modules, no auxiliary classifier",
       WriteInception,
       {{"image", 299}, {"classes", 1000}, {"width", 32}, {"dropout", 50}}},
      {"bridge",
       "convolutions, a linear layer over the whole map, convolutions",
       WriteBridge,
       {{"image", 32}, {"classes", 10}, {"width", 64}, {"channels", 2}, {"layers", 4}}},
      {"transformer",
       "encoder and decoder with one shared table",
       WriteTransformer,
       {{"layers", 6},
        {"hidden", 512},
        {"wide", 2048},
        {"heads", 8},
        {"vocab", 37000},
        {"seq", 256},
        {"dropout", 10}}},
      {"bert-base", "BERT-base with a classifier", WriteBert, BertOf(12, 768, 12)},
      {"bert-large", "BERT-large with a classifier", WriteBert, BertOf(24, 1024, 16)},
      {"bert-48", "BERT-large with 48 layers", WriteBert, BertOf(48, 1024, 16)},
      {"xlnet-large", "decoder of XLNet-large's size", WriteGpt, GptOf(24, 1024, 16, 32000, 512)},
      {"gpt", "GPT-2: decoder-only transformer, tied output", WriteGpt,
       GptOf(12, 768, 12, 50257, 1024)},
      {"vit",
       "ViT-B/16: vision transformer",
       WriteVit,
       {{"layers", 12},
        {"hidden", 768},
        {"heads", 12},
        {"image", 224},
        {"patch", 16},
        {"classes", 1000},
        {"dropout", 0}}},
      {"bert-moe", "BERT-base with experts in every second block", WriteBert,
       WithExperts(BertOf(12, 768, 12), 16, 2)},
      {"tiny-mlp",
       "an MLP that trains in milliseconds",
       WriteMlp,
       {{"layers", 4}, {"inputs", 32}, {"hidden", 64}, {"outputs", 10}, {"dropout", 0}}},
      {"tiny-gpt", "a GPT that trains in milliseconds", WriteGpt, GptOf(4, 64, 4, 256, 64)},
      {"tiny-moe",
       "a mixture of experts that trains in milliseconds",
       WriteBert,
       {{"layers", 4},
        {"hidden", 64},
        {"heads", 4},
        {"vocab", 256},
        {"seq", 32},
        {"classes", 10},
        {"dropout", 0},
        {"experts", 4},
        {"every", 2},
        {"capacity", 125}}},
  };
}

}  // namespace

const std::vector<ZooEntry>& Zoo() {
  static const std::vector<ZooEntry> entries = [] {
    std::vector<ZooEntry> made = MakeEntries();
    AddSmallSizes(made);
    return made;
  }();
  return entries;
}

Result<std::string> ScaledDown(std::string_view text) {
  HEDDLE_ASSIGN(ModelSpec spec, ParseModelSpec(text));
  if (IsConfigSpec(text)) {
    return BadInput(fmt::format("model \"{}\"", text), "too large to compute here",
                    "a configuration has no small copy: make one of fewer layers and features");
  }
  for (const ZooEntry& entry : Zoo()) {
    if (entry.name != spec.name) continue;
    for (const auto& [key, value] : entry.small) spec.values[key] = value;
    return spec.ToString();
  }
  return BadInput(fmt::format("model \"{}\"", text), "no such model in the zoo");
}

bool IsProfileSpec(std::string_view spec) {
  if (IsConfigSpec(spec)) return false;
  return spec.ends_with(".txt") || spec.find('/') != std::string_view::npos;
}

namespace {

Status WriteZooModel(GraphBuilder& builder, const ModelSpec& spec, const std::string& where) {
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
  Status written = entry->write_forward(builder, parameters);
  if (!written.ok()) return BadInput(where, written.error().what, written.error().hint);
  return Ok();
}

Status WriteConfiguredModel(GraphBuilder& builder, const ModelSpec& spec) {
  HEDDLE_ASSIGN(const HfModel model, ReadHfModel(spec));
  HEDDLE_RETURN_IF_ERROR(CheckKnownOps(model, spec.name));
  return WriteHfModel(builder, model);
}

}  // namespace

Result<Graph> BuildModel(std::string_view text, const ModelOptions& options) {
  if (IsProfileSpec(text)) return LoadProfiledModel(std::string(text), options);
  HEDDLE_ASSIGN(const ModelSpec spec, ParseModelSpec(text));
  const std::string where = fmt::format("model \"{}\"", text);
  GraphBuilder builder(options.batch, options.dtype);
  HEDDLE_RETURN_IF_ERROR(IsConfigSpec(text) ? WriteConfiguredModel(builder, spec)
                                            : WriteZooModel(builder, spec, where));
  for (const Tensor& tensor : builder.tensors()) {
    double elements = 1;
    for (const int64_t extent : tensor.shape) elements *= static_cast<double>(extent);
    if (elements > kMostElements) {
      return BadInput(where, fmt::format("tensor {} is too large", tensor.name),
                      "choose smaller dimensions");
    }
  }
  AddTraining(builder, {options.optimizer, options.clip});
  return builder.Finish();
}

}  // namespace heddle
