#include "run/data/libsvm_data.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "run/data/labelled_data.h"
#include "run/data/model_inputs.h"

namespace heddle {
namespace {

constexpr size_t kMostShown = 40;  // characters of a word in an error

std::string Shown(std::string_view word) {
  return word.size() <= kMostShown ? std::string(word)
                                   : std::string(word.substr(0, kMostShown)) + "…";
}

// Adds the entries of one line to the last row.
Status ParseEntries(std::span<const std::string_view> words, const std::string& where,
                    LibsvmRows& rows) {
  std::vector<int64_t> seen;
  for (const std::string_view word : words) {
    const size_t colon = word.find(':');
    const auto index = ParseInteger(word.substr(0, colon));
    const auto value =
        colon == std::string_view::npos ? std::nullopt : ParseReal(word.substr(colon + 1));
    if (!index || !value) {
      return BadInput(where, fmt::format("\"{}\" is not a feature", Shown(word)),
                      "expected index:value with a finite number, as in 3:0.5");
    }
    if (*index < 0) {
      return BadInput(where, fmt::format("feature index {} is negative", *index),
                      "expected indices from 1, or from 0");
    }
    if (*index == 0) rows.least_index = 0;
    rows.index.push_back(*index);
    rows.value.push_back(*value);
    seen.push_back(*index);
  }
  std::sort(seen.begin(), seen.end());
  const auto twice = std::adjacent_find(seen.begin(), seen.end());
  if (twice == seen.end()) return Ok();
  return BadInput(where, fmt::format("feature {} is given twice", *twice),
                  "expected each index once a line");
}

// The distinct labels, ascending: a label's place is its class.
std::vector<double> ClassesOf(const LibsvmRows& rows) {
  std::vector<double> classes = rows.labels;
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  return classes;
}

// Every index is an input of the model.
Status CheckIndices(const LibsvmRows& rows, const std::string& spec, int64_t features) {
  int64_t largest = 0;
  for (const int64_t index : rows.index) largest = std::max(largest, index);
  for (size_t r = 0; r < rows.rows(); ++r) {
    for (size_t k = rows.begins[r]; k < rows.begins[r + 1]; ++k) {
      if (rows.index[k] - rows.least_index < features) continue;
      return BadInput(
          fmt::format("{}: line {}", spec, rows.lines[r]),
          fmt::format("feature {} is beyond the model's {} inputs (indices of this file start at "
                      "{}, the largest is {})",
                      rows.index[k], features, rows.least_index, largest),
          fmt::format(
              "choose a model with as many inputs, as in mlp?inputs={}",
              static_cast<uint64_t>(largest) + 1 - static_cast<uint64_t>(rows.least_index)));
    }
  }
  return Ok();
}

class LibsvmData : public LabelledData {
 public:
  LibsvmData(LibsvmRows rows, std::string spec, InputPair inputs, int64_t features,
             std::vector<int32_t> labels, const DataOptions& options)
      : LabelledData(std::move(spec), inputs, features, std::move(labels), options),
        rows_(std::move(rows)) {}

 protected:
  void WriteFeatures(int64_t sample, std::span<double> features) const override {
    const auto r = static_cast<size_t>(sample);
    for (size_t k = rows_.begins[r]; k < rows_.begins[r + 1]; ++k) {
      features[static_cast<size_t>(rows_.index[k] - rows_.least_index)] = rows_.value[k];
    }
  }

 private:
  LibsvmRows rows_;
};

}  // namespace

Result<LibsvmRows> ParseLibsvm(std::string_view text, const std::string& where) {
  LibsvmRows rows;
  rows.begins.push_back(0);
  int64_t number = 0;
  for (std::string_view line : SplitAt(text, '\n')) {
    ++number;
    line = line.substr(0, line.find('#'));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const auto words = SplitWords(line);
    if (words.empty()) continue;
    const std::string place = fmt::format("{}: line {}", where, number);
    const auto label = ParseReal(words[0]);
    if (!label) {
      return BadInput(place, fmt::format("label \"{}\" is not a number", Shown(words[0])),
                      "expected lines of the form: label index:value index:value …");
    }
    rows.labels.push_back(*label);
    rows.lines.push_back(number);
    HEDDLE_RETURN_IF_ERROR(ParseEntries(std::span(words).subspan(1), place, rows));
    rows.begins.push_back(rows.index.size());
  }
  if (rows.rows() == 0) {
    return BadInput(where, "no samples, only empty lines and comments",
                    "expected lines of the form: label index:value index:value …");
  }
  return rows;
}

Result<std::unique_ptr<DataSource>> MakeLibsvmData(LibsvmRows rows, const std::string& spec,
                                                   const Graph& graph, const DataOptions& options) {
  const auto inputs = OnlyInputs(graph, "x", "targets");
  const auto suits = [&] {
    const Tensor& x = graph.tensor(inputs->data);
    return x.dtype != DType::kI64 && x.shape.size() == 2 &&
           graph.tensor(inputs->targets).shape.size() == 1;
  };
  if (!inputs || !suits()) {
    return Unsuited(spec, graph, "x [b, k], the features, and targets i64 [b], the classes",
                    "perceptrons suit it, as in mlp?inputs=126&outputs=2 or tiny-mlp");
  }
  const int64_t features = SampleElements(graph, inputs->data);
  HEDDLE_RETURN_IF_ERROR(CheckIndices(rows, spec, features));
  const std::vector<double> classes = ClassesOf(rows);
  const int64_t bound = IndexBound(graph, inputs->targets);
  if (bound > 0 && static_cast<int64_t>(classes.size()) > bound) {
    return BadInput(
        spec,
        fmt::format("{} different labels, from {} to {}, where the model has {} classes",
                    GroupDigits(static_cast<int64_t>(classes.size())), classes.front(),
                    classes.back(), bound),
        fmt::format("choose a model with as many classes, as in mlp?outputs={}; labels "
                    "of a regression are not classes",
                    classes.size()));
  }
  std::vector<int32_t> labels;
  for (const double label : rows.labels) {
    const auto place = std::lower_bound(classes.begin(), classes.end(), label);
    labels.push_back(static_cast<int32_t>(place - classes.begin()));
  }
  return std::unique_ptr<DataSource>(std::make_unique<LibsvmData>(
      std::move(rows), spec, *inputs, features, std::move(labels), options));
}

}  // namespace heddle
