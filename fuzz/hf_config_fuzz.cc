// Hugging Face configurations: whatever is read has parts that can be counted; a small one that
// heddle has all ops for becomes a graph of as many parameters as are counted, but for positions
// that nothing reads.
#include <algorithm>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "model/autodiff.h"
#include "model/hf_model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int64_t kMostParameters = 1 << 20;
  constexpr int64_t kMostLayers = 8;
  constexpr int64_t kMostPositions = 1 << 12;
  const std::string text(reinterpret_cast<const char*>(data), size);
  auto config = heddle::ParseHfConfig(text, "fuzz");
  if (!config.ok()) return 0;
  heddle::HfModel model;
  model.config = std::move(config).value();
  model.parts = heddle::PartsOf(model.config);
  auto parameters = heddle::ParametersOf(model.parts, "fuzz");
  if (!parameters.ok()) return 0;
  model.parameters = parameters.value();
  if (!heddle::CheckKnownOps(model, "fuzz").ok()) return 0;
  if (model.parameters > kMostParameters || model.config.layers > kMostLayers) return 0;
  model.sequence = std::min<int64_t>(8, model.config.positions);
  if (model.config.positions > kMostPositions) return 0;
  heddle::GraphBuilder builder(1, heddle::DType::kF32);
  HEDDLE_CHECK(heddle::WriteHfModel(builder, model).ok());
  heddle::AddTraining(builder, {heddle::Optimizer::kSgd});
  const auto graph = builder.Finish();
  HEDDLE_CHECK(graph.ok());
  HEDDLE_CHECK(graph.value().parameter_count() <= model.parameters);
  return 0;
}
