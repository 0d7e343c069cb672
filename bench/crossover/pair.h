// A pair (or more) of equal jobs whose computing and communicating stand in a wanted
// proportion, as plan files.
#pragma once

#include <string>

namespace heddle {

struct JobShape {
  std::string name;  // of the row
  double compute_per_network = 1;
  int ranks = 2;
  double step_seconds = 0.04;           // computing and communicating, undisturbed: paced time
  std::string flags = "--strategy dp";  // of heddle plan
  std::string model = "mlp?layers=6&hidden=128&inputs=128";
  int samples = 8;  // of a rank
};

struct PairFiles {
  std::string whole;                // plan whose gradients are summed in one go, after backward
  std::string buckets;              // the same, in buckets while backward goes on
  double compute = 0, network = 0;  // seconds of a step, modelled
  double link_scale = 1;            // of the cluster's rates, for shaped links
};

// Writes a cluster and plans into `folder`, and a jobs.toml of two, for heddle share to predict.
PairFiles MakePair(const std::string& folder, const JobShape& shape);

// The proportion of computing to communicating of a zoo model in data parallelism on four GPUs of
// 14 TFLOP/s, 10 Gbit/s between them.
double ProportionOf(const std::string& model, int batch, const std::string& folder);

}  // namespace heddle
