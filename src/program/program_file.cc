#include "program/program_file.h"

#include <algorithm>
#include <numeric>

#include "model/zoo.h"
#include "program/unroll.h"

namespace heddle {

bool IsProgramText(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first == std::string_view::npos || text[first] != '{';
}

int64_t BatchesPerBody(const Program& program) {
  if (program.rule != UpdateRule::kLocal) return StepsPerBody(program);
  // Every update of every replica has a batch of its own.
  return std::max<int64_t>(
      1, std::accumulate(program.local_steps.begin(), program.local_steps.end(), int64_t{0}));
}

Result<Graph> ModelOf(const Program& program, const std::string& file,
                      const std::function<Result<FlopRate>(DType)>& profiled_rate) {
  const int64_t batch = program.samples() / BatchesPerBody(program);
  for (const Optimizer optimizer : kOptimizers) {
    for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16, DType::kF64}) {
      for (const double clip : {0.0, 1.0}) {  // the norm itself is not in the hash
        ModelOptions options{batch, dtype, optimizer, clip};
        if (IsProfileSpec(program.model) && profiled_rate) {
          HEDDLE_ASSIGN(options.profile_rate, profiled_rate(dtype));
          options.profile_batch = program.profile_batch;
        }
        HEDDLE_ASSIGN(Graph graph, BuildModel(program.model, options));
        if (graph.ContentHash() == program.model_hash) return graph;
      }
    }
  }
  return BadInput(file + ": model", "its hash fits no dtype and optimizer of this model",
                  "lower the plan again with heddle lower");
}

}  // namespace heddle
