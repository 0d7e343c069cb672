// What the tests of data sources share: small models, files that vanish, data of others.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "model/autodiff.h"
#include "model/graph_builder.h"
#include "model/zoo.h"
#include "run/data/data_source.h"
#include "support/places.h"
#include "support/temporary_file.h"

namespace heddle {

inline Graph ModelOf(const std::string& spec, int64_t batch = 4) {
  auto graph = BuildModel(spec, {.batch = batch});
  EXPECT_TRUE(graph.ok()) << graph.error().ToString();
  return std::move(graph).value();
}

// One linear layer over inputs of any shape: x [b, 3, 32, 32] -> classes.
inline Graph ImageModel(int64_t classes, int64_t side = 32, int64_t batch = 4) {
  GraphBuilder g(batch, DType::kF32);
  const TensorId x = g.Input("x", DType::kF32, {3, side, side});
  const TensorId targets = g.Input("targets", DType::kI64, {});
  g.BeginLayer("fc");
  const TensorId w = g.Parameter("fc.w", {3, side, side, classes});
  g.CrossEntropy("xent", g.Einsum("fc", "bcij,cijn->bn", x, w), targets);
  AddTraining(g, {Optimizer::kSgd});
  auto graph = g.Finish();
  EXPECT_TRUE(graph.ok()) << graph.error().ToString();
  return std::move(graph).value();
}

// Tokens in, one class per sample out.
inline Graph TokenClassifier(int64_t vocabulary, int64_t length, int64_t classes,
                             int64_t batch = 4) {
  GraphBuilder g(batch, DType::kF32);
  const TensorId tokens = g.Input("tokens", DType::kI64, {length});
  const TensorId targets = g.Input("targets", DType::kI64, {});
  g.BeginLayer("fc");
  const TensorId table = g.Parameter("embed", {vocabulary, 8});
  const TensorId w = g.Parameter("fc.w", {length, 8, classes});
  const TensorId x = g.Embedding("embedded", tokens, table);
  g.CrossEntropy("xent", g.Einsum("fc", "bsh,shn->bn", x, w), targets);
  AddTraining(g, {Optimizer::kSgd});
  auto graph = g.Finish();
  EXPECT_TRUE(graph.ok()) << graph.error().ToString();
  return std::move(graph).value();
}

inline TensorId InputOf(const Graph& graph, const std::string& name) {
  const auto found = graph.FindTensor(name);
  EXPECT_TRUE(found.has_value()) << name;
  return found.value_or(TensorId{});
}

inline std::unique_ptr<DataSource> Opened(const std::string& spec, const Graph& graph,
                                          const DataOptions& options = {}) {
  auto data = OpenData(spec, graph, options);
  EXPECT_TRUE(data.ok()) << data.error().ToString();
  return data.ok() ? std::move(data).value() : nullptr;
}

// The error of a source that must not open.
inline std::string Refusal(const std::string& spec, const Graph& graph,
                           const DataOptions& options = {}) {
  const auto data = OpenData(spec, graph, options);
  EXPECT_FALSE(data.ok());
  if (data.ok()) return "";
  EXPECT_EQ(data.error().kind, ErrorKind::kBadInput);
  EXPECT_FALSE(data.error().hint.empty()) << data.error().ToString();
  return data.error().ToString();
}

// Data of others, which are no part of heddle: see docs/data.md.
inline std::string SharedData(const std::string& name) {
  return SourceDir() + "/../shared/data/" + name;
}

// Ours, which are.
inline std::string OwnData(const std::string& name) { return SourceDir() + "/tests/data/" + name; }

}  // namespace heddle
