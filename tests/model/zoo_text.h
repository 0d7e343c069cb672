// Zoo models by their spec.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "model/zoo.h"

namespace heddle {

inline Graph Build(const std::string& spec, const ModelOptions& options = {}) {
  Result<Graph> graph = BuildModel(spec, options);
  EXPECT_TRUE(graph.ok()) << spec << ": " << graph.error().ToString();
  return std::move(graph).value();
}

inline std::string ErrorOf(const std::string& spec, const ModelOptions& options = {}) {
  const Result<Graph> graph = BuildModel(spec, options);
  EXPECT_FALSE(graph.ok()) << spec;
  if (graph.ok()) return "";
  EXPECT_EQ(graph.error().kind, ErrorKind::kBadInput);
  return graph.error().ToString();
}

inline int CountOf(const Graph& graph, OpKind kind, Phase phase = Phase::kForward) {
  int count = 0;
  for (const Op& op : graph.ops()) count += op.kind == kind && op.phase == phase ? 1 : 0;
  return count;
}

// Of the matrix ops of one forward pass: what papers count.
inline double MultiplyAddsOf(const Graph& graph) {
  double flops = 0;
  for (const Op& op : graph.ops()) {
    if (op.phase == Phase::kForward && InfoOf(op.kind).matrix) {
      flops += FlopsOf(op, op.extents).value;
    }
  }
  return flops / 2;
}

}  // namespace heddle
