#include "run/data/text_data.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/text.h"
#include "run/data/model_inputs.h"
#include "run/data/permutation.h"

namespace heddle {
namespace {

class TextData : public DataSource {
 public:
  TextData(std::string contents, std::string spec, InputPair inputs, int64_t length,
           const DataOptions& options)
      : contents_(std::move(contents)),
        spec_(std::move(spec)),
        inputs_(inputs),
        length_(length),
        seed_(options.seed) {
    const int64_t windows = (static_cast<int64_t>(contents_.size()) - 1) / length_;
    held_out_ = HeldOut(windows, options);
    train_ = windows - held_out_;
  }

  std::string Describe() const override {
    return fmt::format("{}: {} bytes, windows of {}: {} to train on, {} held out", spec_,
                       GroupDigits(static_cast<int64_t>(contents_.size())), GroupDigits(length_),
                       GroupDigits(train_), GroupDigits(held_out_));
  }

  int64_t train_samples() const override { return train_; }
  int64_t validation_samples() const override { return held_out_; }

  std::vector<double> Train(TensorId input, int64_t first, int64_t count) const override {
    HEDDLE_CHECK(first >= 0 && count >= 0);
    std::vector<double> values;
    values.reserve(static_cast<size_t>(count * length_));
    for (int64_t p = first; p < first + count; ++p) {
      AppendWindow(input, SampleAt(p, train_, seed_), values);
    }
    return values;
  }

  std::vector<double> Validation(TensorId input, int64_t first, int64_t count) const override {
    HEDDLE_CHECK(first >= 0 && count >= 0 && first + count <= held_out_);
    std::vector<double> values;
    values.reserve(static_cast<size_t>(count * length_));
    for (int64_t k = first; k < first + count; ++k) AppendWindow(input, train_ + k, values);
    return values;
  }

 private:
  void AppendWindow(TensorId input, int64_t window, std::vector<double>& values) const {
    HEDDLE_CHECK(input == inputs_.data || input == inputs_.targets);
    const int64_t begin = window * length_ + (input == inputs_.targets ? 1 : 0);
    for (int64_t k = begin; k < begin + length_; ++k) {
      values.push_back(static_cast<unsigned char>(contents_[static_cast<size_t>(k)]));
    }
  }

  std::string contents_;
  std::string spec_;
  InputPair inputs_;
  int64_t length_;  // s: tokens of a sample
  uint64_t seed_;
  int64_t train_ = 0;
  int64_t held_out_ = 0;
};

// Every byte is a token the model knows.
Status CheckBytes(const std::string& contents, const std::string& spec, int64_t bound) {
  if (bound == 0 || bound > 255) return Ok();
  const auto outside = std::find_if(contents.begin(), contents.end(),
                                    [&](char c) { return static_cast<unsigned char>(c) >= bound; });
  if (outside == contents.end()) return Ok();
  const auto line = 1 + std::count(contents.begin(), outside, '\n');
  return BadInput(fmt::format("{}: line {}", spec, line),
                  fmt::format("byte {} where the model knows tokens below {}",
                              static_cast<unsigned char>(*outside), bound),
                  "a vocabulary of 256 takes every text, as in gpt?vocab=256");
}

}  // namespace

Result<std::unique_ptr<DataSource>> MakeTextData(std::string contents, const std::string& spec,
                                                 const Graph& graph, const DataOptions& options) {
  const auto inputs = OnlyInputs(graph, "tokens", "targets");
  const auto suits = [&] {
    const Tensor& tokens = graph.tensor(inputs->data);
    return tokens.dtype == DType::kI64 && tokens.shape.size() == 2 &&
           tokens.shape == graph.tensor(inputs->targets).shape;
  };
  if (!inputs || !suits()) {
    return Unsuited(spec, graph, "tokens i64 [b, s] and targets i64 [b, s], the bytes of a text",
                    "language models suit it, as in tiny-gpt or gpt?vocab=256");
  }
  const int64_t length = graph.tensor(inputs->data).shape[1];
  if (static_cast<int64_t>(contents.size()) <= length) {
    return BadInput(
        spec, fmt::format("{} bytes, fewer than one window of {}", contents.size(), length + 1),
        fmt::format("expected a longer text, or a model with a shorter sequence: seq={} or less",
                    std::max<int64_t>(static_cast<int64_t>(contents.size()) - 1, 1)));
  }
  HEDDLE_RETURN_IF_ERROR(CheckBytes(contents, spec, IndexBound(graph, inputs->data)));
  HEDDLE_RETURN_IF_ERROR(CheckBytes(contents, spec, IndexBound(graph, inputs->targets)));
  return std::unique_ptr<DataSource>(
      std::make_unique<TextData>(std::move(contents), spec, *inputs, length, options));
}

}  // namespace heddle
