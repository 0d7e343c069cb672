// libsvm text: whatever parses has rows that are in order, and a model that suits it reads them
// all.
#include <cmath>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "model/zoo.h"
#include "run/data/libsvm_data.h"

namespace {

const heddle::Graph& Model() {
  static const heddle::Graph graph =
      heddle::BuildModel("tiny-mlp?inputs=16&outputs=4", {.batch = 2}).value();
  return graph;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto rows = heddle::ParseLibsvm(text, "fuzz");
  if (!rows.ok()) return 0;
  const heddle::LibsvmRows& read = rows.value();
  HEDDLE_CHECK(read.rows() >= 1 && read.begins.size() == read.rows() + 1);
  HEDDLE_CHECK(read.begins.back() == read.index.size() && read.index.size() == read.value.size());
  const auto samples = static_cast<int64_t>(read.rows());
  const auto source = heddle::MakeLibsvmData(std::move(rows).value(), "fuzz", Model(), {});
  if (!source.ok()) return 0;
  const heddle::TensorId x = *Model().FindTensor("x"), targets = *Model().FindTensor("targets");
  HEDDLE_CHECK(source.value()->train_samples() + source.value()->validation_samples() == samples);
  for (const double feature : source.value()->Train(x, 0, samples)) {
    HEDDLE_CHECK(std::isfinite(feature));
  }
  for (const double target : source.value()->Train(targets, 0, samples)) {
    HEDDLE_CHECK(target >= 0 && target < 4);
  }
  return 0;
}
