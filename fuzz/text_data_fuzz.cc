// Any bytes as text: those accepted give tokens the model knows, each target the token after.
#include <cstdint>
#include <string>

#include "base/check.h"
#include "model/zoo.h"
#include "run/data/text_data.h"

namespace {

const heddle::Graph& Model() {
  static const heddle::Graph graph =
      heddle::BuildModel("tiny-gpt?layers=1&seq=5&vocab=128", {.batch = 2}).value();
  return graph;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string contents(reinterpret_cast<const char*>(data), size);
  const auto source = heddle::MakeTextData(contents, "fuzz", Model(), {.validation = 0.3});
  if (!source.ok()) return 0;
  const int64_t samples = source.value()->train_samples();
  HEDDLE_CHECK(samples >= 1);
  const auto tokens = source.value()->Train(*Model().FindTensor("tokens"), 0, samples);
  const auto targets = source.value()->Train(*Model().FindTensor("targets"), 0, samples);
  HEDDLE_CHECK(tokens.size() == targets.size());
  for (size_t k = 0; k < tokens.size(); ++k) {
    HEDDLE_CHECK(tokens[k] >= 0 && tokens[k] < 128 && targets[k] >= 0 && targets[k] < 128);
    HEDDLE_CHECK((k + 1) % 5 == 0 || targets[k] == tokens[k + 1]);
  }
  return 0;
}
