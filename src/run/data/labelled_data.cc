#include "run/data/labelled_data.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/text.h"

namespace heddle {

LabelledData::LabelledData(std::string spec, InputPair inputs, int64_t features,
                           std::vector<int32_t> labels, const DataOptions& options)
    : spec_(std::move(spec)),
      inputs_(inputs),
      features_(features),
      labels_(std::move(labels)),
      seed_(options.seed),
      held_out_(HeldOut(samples(), options)),
      split_(samples(), options.seed, "held out") {}

std::string LabelledData::Describe() const {
  const auto classes = 1 + *std::max_element(labels_.begin(), labels_.end());
  return fmt::format("{}: {} samples of {} features in {} {}: {} to train on, {} held out", spec_,
                     GroupDigits(samples()), GroupDigits(features_), GroupDigits(classes),
                     classes == 1 ? "class" : "classes", GroupDigits(train_samples()),
                     GroupDigits(held_out_));
}

std::vector<double> LabelledData::Train(TensorId input, int64_t first, int64_t count) const {
  HEDDLE_CHECK(first >= 0 && count >= 0);
  std::vector<int64_t> chosen;
  for (int64_t p = first; p < first + count; ++p) {
    chosen.push_back(split_.At(held_out_ + SampleAt(p, train_samples(), seed_)));
  }
  return Gather(input, chosen);
}

std::vector<double> LabelledData::Validation(TensorId input, int64_t first, int64_t count) const {
  HEDDLE_CHECK(first >= 0 && count >= 0 && first + count <= held_out_);
  std::vector<int64_t> chosen;
  for (int64_t k = first; k < first + count; ++k) chosen.push_back(split_.At(k));
  return Gather(input, chosen);
}

std::vector<double> LabelledData::Gather(TensorId input, std::span<const int64_t> chosen) const {
  HEDDLE_CHECK(input == inputs_.data || input == inputs_.targets);
  if (input == inputs_.targets) {
    std::vector<double> classes;
    for (const int64_t sample : chosen) classes.push_back(labels_[static_cast<size_t>(sample)]);
    return classes;
  }
  const auto width = static_cast<size_t>(features_);
  std::vector<double> values(chosen.size() * width);
  for (size_t k = 0; k < chosen.size(); ++k) {
    WriteFeatures(chosen[k], std::span(values).subspan(k * width, width));
  }
  return values;
}

}  // namespace heddle
