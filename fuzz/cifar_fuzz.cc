// CIFAR records, of ten classes or a hundred by the first byte: those accepted can all be read.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "model/zoo.h"
#include "run/data/cifar_data.h"

namespace {

const heddle::Graph& Model() {
  static const heddle::Graph graph =
      heddle::BuildModel("tiny-mlp?inputs=3072&outputs=100&layers=1", {.batch = 2}).value();
  return graph;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const heddle::CifarLayout& layout = data[0] % 2 == 0 ? heddle::kCifar10 : heddle::kCifar100;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  heddle::CifarRecords records;
  if (!heddle::AddCifarRecords(bytes, layout, "fuzz", records).ok()) return 0;
  HEDDLE_CHECK(records.images.size() == records.labels.size() * 3072);
  const auto samples = static_cast<int64_t>(records.labels.size());
  const auto source = heddle::MakeCifarData(std::move(records), layout, "fuzz", Model(), {});
  HEDDLE_CHECK(source.ok());
  const heddle::TensorId x = *Model().FindTensor("x"), targets = *Model().FindTensor("targets");
  for (const double colour : source.value()->Train(x, 0, samples)) {
    HEDDLE_CHECK(colour >= -2 && colour <= 2);
  }
  for (const double target : source.value()->Train(targets, 0, samples)) {
    HEDDLE_CHECK(target >= 0 && target < layout.classes);
  }
  return 0;
}
