#include "model/microbatch_graph.h"

#include "base/check.h"

namespace heddle {

Graph MicrobatchGraph(const Graph& graph, int64_t rows) {
  std::vector<Tensor> tensors = graph.tensors();
  for (Tensor& tensor : tensors) {
    if (tensor.per_sample) tensor.shape[0] = rows;
  }
  std::vector<Op> ops = graph.ops();
  for (Op& op : ops) op.extents = ExtentsForRows(op, rows);
  Result<Graph> made =
      Graph::Make(std::move(tensors), std::move(ops), graph.parameters(), graph.layers(), rows);
  HEDDLE_CHECK(made.ok());
  return std::move(made).value();
}

}  // namespace heddle
