// Model inputs: what a model reads, and what to say when a data source cannot give it.
//
//   const auto inputs = OnlyInputs(graph, "tokens", "targets");
//   if (!inputs) return Unsuited(spec, graph, "tokens i64 [b, s], targets i64 [b, s]", remedy);
//
// The first axis of every input is the sample axis; b stands for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/graph.h"

namespace heddle {

// The extent that a whole-number input indexes; 0 when no op reads it so.
int64_t IndexBound(const Graph& graph, TensorId input);

std::vector<TensorId> InputsOf(const Graph& graph);

// Elements of one sample.
int64_t SampleElements(const Graph& graph, TensorId input);

struct InputPair {
  TensorId data;     // x or tokens
  TensorId targets;  // whole numbers, indices of classes
};

// The two inputs by their names, if the model has them and no others, one row per sample each, and
// the targets are whole numbers.
std::optional<InputPair> OnlyInputs(const Graph& graph, std::string_view data,
                                    std::string_view targets);

// "x f32 [b, 784], targets i64 [b] below 10"
std::string DescribeInputs(const Graph& graph);

// The error for a model whose inputs the source cannot give.
Error Unsuited(const std::string& spec, const Graph& graph, const std::string& gives,
               const std::string& suited);

}  // namespace heddle
