#include "run/data/cifar_data.h"

#include <fmt/format.h>

#include <span>

#include "base/text.h"
#include "run/data/labelled_data.h"
#include "run/data/model_inputs.h"

namespace heddle {
namespace {

constexpr size_t kImageBytes = 3 * 32 * 32;

class CifarData : public LabelledData {
 public:
  CifarData(CifarRecords records, std::string spec, InputPair inputs, const DataOptions& options)
      : LabelledData(std::move(spec), inputs, kImageBytes, std::move(records.labels), options),
        images_(std::move(records.images)) {}

 protected:
  void WriteFeatures(int64_t sample, std::span<double> features) const override {
    const size_t begin = static_cast<size_t>(sample) * kImageBytes;
    for (size_t k = 0; k < kImageBytes; ++k) {
      const int colour = static_cast<unsigned char>(images_[begin + k]);
      features[k] = (colour / 255.0 - 0.5) / 0.25;
    }
  }

 private:
  std::string images_;
};

bool IsImage(const Tensor& x) {
  const std::vector<int64_t> sample(x.shape.begin() + 1, x.shape.end());
  const bool flat = sample == std::vector<int64_t>{kImageBytes};
  return x.dtype != DType::kI64 && (flat || sample == std::vector<int64_t>{3, 32, 32});
}

}  // namespace

Status AddCifarRecords(std::string_view bytes, const CifarLayout& layout, const std::string& where,
                       CifarRecords& records) {
  const auto label_bytes = static_cast<size_t>(layout.label_bytes);
  const size_t record_bytes = label_bytes + kImageBytes;
  if (bytes.empty() || bytes.size() % record_bytes != 0) {
    return BadInput(
        where,
        fmt::format("{} bytes, not a whole number of {} records of {} bytes",
                    GroupDigits(static_cast<int64_t>(bytes.size())), layout.name, record_bytes),
        "expected the binary version, as data_batch_1.bin; cifar: is for CIFAR-10, "
        "cifar100: for CIFAR-100");
  }
  for (size_t begin = 0; begin < bytes.size(); begin += record_bytes) {
    const int label = static_cast<unsigned char>(bytes[begin + label_bytes - 1]);
    if (label >= layout.classes) {
      return BadInput(fmt::format("{}: record {}", where, begin / record_bytes),
                      fmt::format("label {} is out of range", label),
                      fmt::format("{} has labels 0 to {}; is this another format?", layout.name,
                                  layout.classes - 1));
    }
    records.labels.push_back(label);
    records.images.append(bytes.substr(begin + label_bytes, kImageBytes));
  }
  return Ok();
}

Result<std::unique_ptr<DataSource>> MakeCifarData(CifarRecords records, const CifarLayout& layout,
                                                  const std::string& spec, const Graph& graph,
                                                  const DataOptions& options) {
  const auto inputs = OnlyInputs(graph, "x", "targets");
  if (!inputs || !IsImage(graph.tensor(inputs->data)) ||
      graph.tensor(inputs->targets).shape.size() != 1) {
    return Unsuited(
        spec, graph, "x [b, 3, 32, 32] or [b, 3072], the colours, and targets i64 [b], the classes",
        fmt::format("perceptrons suit it, as in mlp?inputs=3072&outputs={}, and image models of "
                    "32 x 32",
                    layout.classes));
  }
  const int64_t bound = IndexBound(graph, inputs->targets);
  if (bound > 0 && bound < layout.classes) {
    return BadInput(
        spec, fmt::format("{} has {} classes, the model {}", layout.name, layout.classes, bound),
        fmt::format("choose a model with as many classes, as in mlp?inputs=3072&outputs={}",
                    layout.classes));
  }
  return std::unique_ptr<DataSource>(
      std::make_unique<CifarData>(std::move(records), spec, *inputs, options));
}

}  // namespace heddle
