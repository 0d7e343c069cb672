// Small clusters and models for tests of plan/spmd.
#pragma once

#include <fmt/format.h>

#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "model/autodiff.h"
#include "model/graph_builder.h"
#include "plan/spmd/problem.h"

namespace heddle {

struct ClusterNumbers {
  int nodes = 2;
  int devices = 2;            // per node
  double flops = 1e12;        // of the first node; each further one has `slower` times less
  double slower = 1;          //
  double inside = 10e9;       // bytes per second between devices of a node
  double between = 1e9;       // and between nodes
  double latency = 1e-6;      //
  double memory = 16e9;       //
  double memory_rate = 1e12;  // bytes per second
  double launch = 1e-6;       //
};

inline Cluster ClusterOf(const ClusterNumbers& n) {
  std::string text = "schema = \"heddle.cluster/1\"\n";
  double flops = n.flops;
  for (int k = 0; k < n.nodes; ++k, flops /= n.slower) {
    text += fmt::format(
        "[device_type.t{0}]\nflops = \"{1} GFLOP/s\"\nmemory = \"{2} MB\"\n"
        "memory_bandwidth = \"{3} GB/s\"\nlaunch = \"{4} us\"\n",
        k, flops / 1e9, n.memory / 1e6, n.memory_rate / 1e9, n.launch * 1e6);
  }
  const auto link = [&](double rate) {
    return fmt::format("bandwidth = \"{} MB/s\"\nlatency = \"{} us\"\n", rate / 1e6,
                       n.latency * 1e6);
  };
  for (int k = 0; k < n.nodes; ++k) {
    text +=
        fmt::format("[[node]]\nname = \"n{0}\"\ndevices = [{{ type = \"t{0}\", count = {1} }}]\n",
                    k, n.devices);
    if (n.devices > 1) {
      text += fmt::format("link = {{ bandwidth = \"{} MB/s\", latency = \"{} us\" }}\n",
                          n.inside / 1e6, n.latency * 1e6);
    }
  }
  if (n.nodes > 1) text += "[[switch]]\nname = \"s\"\n";
  for (int k = 0; n.nodes > 1 && k < n.nodes; ++k) {
    text += fmt::format("[[link]]\nbetween = [\"n{}\", \"s\"]\n", k) + link(n.between);
  }
  return ParseClusterToml(text, "test").value();
}

inline ClusterNumbers RandomCluster(std::mt19937& random) {
  const auto between = [&](double low, double high) {
    return std::exp(std::uniform_real_distribution<double>(std::log(low), std::log(high))(random));
  };
  ClusterNumbers n;
  n.nodes = std::uniform_int_distribution<int>(2, 3)(random);
  n.devices = std::uniform_int_distribution<int>(2, 3)(random);
  n.flops = between(1e6, 1e9);
  n.slower = between(1, 3);
  n.inside = between(1e6, 1e9);
  n.between = between(1e5, 1e9);
  n.latency = between(1e-7, 1e-4);
  n.memory_rate = between(1e7, 1e10);
  n.launch = between(1e-7, 1e-5);
  return n;
}

// Uneven, some of them zero.
inline void SetRandomRatios(std::mt19937& random, SpmdMesh& mesh) {
  for (size_t axis = 0; axis < kMeshAxes; ++axis) {
    for (std::vector<double>& ratios : mesh.ratios[axis]) {
      for (double& ratio : ratios) ratio = std::uniform_int_distribution<int>(0, 4)(random);
      ratios[random() % ratios.size()] += 1;
      const double sum = std::accumulate(ratios.begin(), ratios.end(), 0.0);
      for (double& ratio : ratios) ratio /= sum;
    }
  }
}

// One matrix product and the loss, with or without a bias: five ops, or eight.
inline Graph LinearModel(int64_t batch, int64_t inputs, int64_t classes, bool bias,
                         Optimizer optimizer = Optimizer::kSgd) {
  GraphBuilder g(batch, DType::kF32);
  const TensorId x = g.Input("x", DType::kF32, {inputs});
  g.BeginLayer("fc");
  TensorId y = g.Einsum("fc", "bk,kn->bn", x, g.Parameter("w", {inputs, classes}));
  if (bias) y = g.BiasAdd("add", "bn,n->bn", y, g.Parameter("bias", {classes}));
  g.CrossEntropy("xent", y, g.Input("targets", DType::kI64, {}));
  AddTraining(g, {optimizer, 0});
  return g.Finish().value();
}

// Convolutions with few weights, and one large matrix product ("big") at the end.
inline Graph ConvolutionsThenProduct(int64_t batch, int64_t image, int64_t classes) {
  constexpr int64_t kChannels = 16, kFeatures = 1024;
  GraphBuilder g(batch, DType::kF32);
  TensorId x = g.Input("x", DType::kF32, {kChannels, image, image});
  g.BeginLayer("images");
  for (const char* name : {"conv0", "conv1", "conv2"}) {
    const TensorId w = g.Parameter(std::string(name) + ".w", {kChannels, kChannels, 3, 3});
    x = g.Relu(std::string(name) + ".relu", g.Conv2d(name, x, w, {0, 0, 1, 1, 1}));
  }
  x = g.Conv2d("wide", x, g.Parameter("wide.w", {kFeatures, kChannels, 1, 1}), {0, 0, 8});
  x = g.Mean("mean", x);
  x = g.Einsum("big", "bk,kn->bn", x, g.Parameter("big.w", {kFeatures, classes}));
  g.CrossEntropy("xent", x, g.Input("targets", DType::kI64, {}));
  AddTraining(g, {Optimizer::kSgd, 0});
  return g.Finish().value();
}

}  // namespace heddle
