// LabelledData: samples that have features and one class each. It knows which of them are held out
// and in which order the others come; derived classes know how the features are stored.
//
// A seeded permutation of all samples decides the split: its first part is held out, the rest is
// trained on, in an order that each epoch draws anew.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "run/data/data_source.h"
#include "run/data/model_inputs.h"
#include "run/data/permutation.h"

namespace heddle {

class LabelledData : public DataSource {
 public:
  // REQUIRES: at least one label; `features` of each sample.
  LabelledData(std::string spec, InputPair inputs, int64_t features, std::vector<int32_t> labels,
               const DataOptions& options);

  std::string Describe() const override;
  int64_t train_samples() const override { return samples() - held_out_; }
  int64_t validation_samples() const override { return held_out_; }
  std::vector<double> Train(TensorId input, int64_t first, int64_t count) const override;
  std::vector<double> Validation(TensorId input, int64_t first, int64_t count) const override;

 protected:
  // Fills the features of a sample, in the order of the file; `features` are all zero.
  virtual void WriteFeatures(int64_t sample, std::span<double> features) const = 0;

 private:
  int64_t samples() const { return static_cast<int64_t>(labels_.size()); }
  std::vector<double> Gather(TensorId input, std::span<const int64_t> chosen) const;

  std::string spec_;
  InputPair inputs_;
  int64_t features_;
  std::vector<int32_t> labels_;
  uint64_t seed_;
  int64_t held_out_;
  Permutation split_;
};

}  // namespace heddle
