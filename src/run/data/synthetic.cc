#include "run/data/synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>

#include "base/check.h"
#include "base/philox.h"
#include "base/text.h"
#include "run/data/model_inputs.h"

namespace heddle {
namespace {

constexpr int64_t kSamplesHeldOut = 1024;
constexpr int64_t kScoredElements = 4;  // of x, by the teacher
constexpr int64_t kScoredTokens = 2;

// Where the random numbers of an input come from.
enum class Part : uint8_t { kTrain, kHeldOut };

std::string StreamName(Part part, const std::string& input) {
  return (part == Part::kTrain ? "data." : "held out.") + input;
}

// Normal numbers [begin, begin + out.size()) of a stream.
void WriteNormals(const RandomStream& stream, uint64_t begin, std::vector<double>& out) {
  constexpr uint64_t kBlock = 4;
  for (size_t k = 0; k < out.size();) {
    const uint64_t at = begin + k;
    const auto normals = stream.Normals(at / kBlock);
    for (uint64_t j = at % kBlock; j < kBlock && k < out.size(); ++j) out[k++] = normals[j];
  }
}

double NormalAt(const RandomStream& stream, uint64_t index) {
  return stream.Normals(index / 4)[index % 4];
}

// An input without a rule, or one that a rule reads.
struct PlainInput {
  std::string name;
  int64_t elements = 0;  // of a sample
  int64_t bound = 0;     // 0: normal numbers, else uniform whole ones below

  double At(const RandomStream& stream, int64_t element) const {
    const auto index = static_cast<uint64_t>(element);
    if (bound == 0) return NormalAt(stream, index);
    return static_cast<double>(stream.Below(index, static_cast<uint64_t>(bound)));
  }

  std::vector<double> Write(uint64_t seed, Part part, int64_t first, int64_t count) const {
    const RandomStream stream(seed, StreamName(part, name));
    std::vector<double> values(static_cast<size_t>(count * elements));
    const int64_t begin = first * elements;
    if (bound == 0) {
      WriteNormals(stream, static_cast<uint64_t>(begin), values);
      return values;
    }
    for (size_t k = 0; k < values.size(); ++k) {
      values[k] = At(stream, begin + static_cast<int64_t>(k));
    }
    return values;
  }
};

// token -> (a * token + c) mod V, with a prime to V so that no token is rarer than the others.
class Walk {
 public:
  Walk(uint64_t seed, int64_t vocabulary, int64_t length)
      : vocabulary_(static_cast<uint64_t>(vocabulary)), length_(static_cast<uint64_t>(length)) {
    const RandomStream rule(seed, "data.walk");
    factor_ = 1 + rule.Below(0, vocabulary_);
    while (std::gcd(factor_, vocabulary_) != 1) ++factor_;
    summand_ = rule.Below(1, vocabulary_);
  }

  // The tokens of a sample, or its targets: one step on.
  void Append(const RandomStream& stream, int64_t sample, bool targets,
              std::vector<double>& values) const {
    const uint64_t begin = static_cast<uint64_t>(sample) * (length_ + 1);
    uint64_t token = stream.Below(begin, vocabulary_);
    for (uint64_t k = 0; k < length_; ++k) {
      if (!targets) values.push_back(static_cast<double>(token));
      token = Next(token, stream.Bits(begin + 1 + k));
      if (targets) values.push_back(static_cast<double>(token));
    }
  }

 private:
  // One half of the bits decides whether to leave the rule, the other where to.
  uint64_t Next(uint64_t token, uint64_t bits) const {
    constexpr uint64_t kNoise = (uint64_t{1} << 32) / 10;
    if ((bits >> 32) < kNoise) return ((bits & 0xffffffff) * vocabulary_) >> 32;
    return (factor_ * token + summand_) % vocabulary_;
  }

  uint64_t vocabulary_;
  uint64_t length_;  // tokens of a sample
  uint64_t factor_;
  uint64_t summand_;
};

// Scores each class by a few elements of the sample; the class with the highest score is right.
class Teacher {
 public:
  Teacher(uint64_t seed, PlainInput input, int64_t classes)
      : input_(std::move(input)), classes_(classes), weights_(seed, "data.teacher.weights") {
    const RandomStream places(seed, "data.teacher.places");
    const int64_t scored = input_.bound == 0 ? kScoredElements : kScoredTokens;
    for (uint64_t k = 0; std::ssize(places_) < std::min(scored, input_.elements); ++k) {
      const auto place =
          static_cast<int64_t>(places.Below(k, static_cast<uint64_t>(input_.elements)));
      const bool known = std::find(places_.begin(), places_.end(), place) != places_.end();
      if (!known) places_.push_back(place);
    }
  }

  const PlainInput& input() const { return input_; }

  double ClassOf(const RandomStream& stream, int64_t sample) const {
    std::vector<double> scores(static_cast<size_t>(classes_));
    for (size_t j = 0; j < places_.size(); ++j) {
      const double value = input_.At(stream, sample * input_.elements + places_[j]);
      // x counts by its value, a token by having a row of weights of its own.
      const double factor = input_.bound == 0 ? value : 1;
      const uint64_t row = input_.bound == 0 ? j
                                             : j * static_cast<uint64_t>(input_.bound) +
                                                   static_cast<uint64_t>(value);
      AddRow(row, factor, scores);
    }
    return static_cast<double>(std::max_element(scores.begin(), scores.end()) - scores.begin());
  }

 private:
  void AddRow(uint64_t row, double factor, std::vector<double>& scores) const {
    std::vector<double> weights(scores.size());
    WriteNormals(weights_, row * static_cast<uint64_t>(classes_), weights);
    for (size_t c = 0; c < scores.size(); ++c) scores[c] += factor * weights[c];
  }

  PlainInput input_;
  int64_t classes_;
  RandomStream weights_;         // one row of classes per scored element, or per scored token
  std::vector<int64_t> places_;  // the elements of a sample that are scored
};

class SyntheticData : public DataSource {
 public:
  SyntheticData(const Graph& graph, const DataOptions& options)
      : seed_(options.seed), held_out_(options.validation > 0 ? kSamplesHeldOut : 0) {
    for (const TensorId input : InputsOf(graph)) {
      const Tensor& tensor = graph.tensor(input);
      const int64_t bound = tensor.dtype == DType::kI64 ? IndexBound(graph, input) : 0;
      plain_[input] = {tensor.name, SampleElements(graph, input), bound};
    }
    about_ = DescribeInputs(graph);
    FindRule(graph);
  }

  std::string Describe() const override {
    return fmt::format("synthetic: {}; endless, {} held out", about_, GroupDigits(held_out_));
  }

  int64_t train_samples() const override { return 0; }
  int64_t validation_samples() const override { return held_out_; }

  std::vector<double> Train(TensorId input, int64_t first, int64_t count) const override {
    return Write(input, Part::kTrain, first, count);
  }

  std::vector<double> Validation(TensorId input, int64_t first, int64_t count) const override {
    HEDDLE_CHECK(first + count <= held_out_);
    return Write(input, Part::kHeldOut, first, count);
  }

 private:
  void FindRule(const Graph& graph) {
    const auto targets = graph.FindTensor("targets");
    if (!targets || !plain_.contains(*targets)) return;
    const PlainInput& classes = plain_.at(*targets);
    if (classes.bound == 0) return;
    const auto tokens = graph.FindTensor("tokens");
    const bool has_tokens = tokens && plain_.contains(*tokens) && plain_.at(*tokens).bound > 0;
    const auto x = graph.FindTensor("x");
    if (has_tokens && graph.tensor(*tokens).shape == graph.tensor(*targets).shape) {
      const int64_t vocabulary = std::min(classes.bound, plain_.at(*tokens).bound);
      walk_.emplace(seed_, vocabulary, classes.elements);
      pair_ = {*tokens, *targets};
    } else if (classes.elements == 1 && (has_tokens || (x && plain_.contains(*x)))) {
      pair_ = {has_tokens ? *tokens : *x, *targets};
      teacher_.emplace(seed_, plain_.at(pair_.data), classes.bound);
    }
  }

  std::vector<double> Write(TensorId input, Part part, int64_t first, int64_t count) const {
    HEDDLE_CHECK(first >= 0 && count >= 0 && plain_.contains(input));
    const bool targets = input == pair_.targets;
    const bool walks = walk_ && (targets || input == pair_.data);
    if (!walks && !(teacher_ && targets)) return plain_.at(input).Write(seed_, part, first, count);
    const RandomStream stream(seed_, StreamName(part, plain_.at(pair_.data).name));
    std::vector<double> values;
    values.reserve(static_cast<size_t>(count * plain_.at(input).elements));
    for (int64_t sample = first; sample < first + count; ++sample) {
      if (walks) {
        walk_->Append(stream, sample, targets, values);
      } else {
        values.push_back(teacher_->ClassOf(stream, sample));
      }
    }
    return values;
  }

  uint64_t seed_;
  int64_t held_out_;
  std::string about_;
  std::map<TensorId, PlainInput> plain_;
  InputPair pair_;  // what the rule relates; at most one of these is there
  std::optional<Walk> walk_;
  std::optional<Teacher> teacher_;
};

}  // namespace

std::unique_ptr<DataSource> MakeSyntheticData(const Graph& graph, const DataOptions& options) {
  return std::make_unique<SyntheticData>(graph, options);
}

std::vector<double> SyntheticInput(const Graph& graph, TensorId input, uint64_t seed, int64_t first,
                                   int64_t count) {
  return SyntheticData(graph, {.seed = seed}).Train(input, first, count);
}

}  // namespace heddle
