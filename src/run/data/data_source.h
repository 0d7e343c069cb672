// DataSource: where samples come from, by their position in a stream.
//
//   HEDDLE_ASSIGN(auto data, OpenData("text:book.txt", graph, {.seed = 1}));
//   data->Train(tokens, step * batch, batch);        the samples of a step, on whichever device
//   data->Validation(tokens, 0, data->validation_samples());
//
// The training stream is endless: epoch after epoch, each in an order of its own. What is at a
// position depends on the seed and the position alone (permutation.h), so that every device reads
// its share without asking the others, and a run that is resumed goes on where it was. Samples held
// out never occur in it.
//
// docs/data.md shows each kind of source by example.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/graph.h"

namespace heddle {

// Immutable: const methods may be called from several threads. Keeps no reference to the Graph.
class DataSource {
 public:
  virtual ~DataSource() = default;

  // One line for people.
  virtual std::string Describe() const = 0;

  virtual int64_t train_samples() const = 0;       // of one epoch; 0: endless, nothing repeats
  virtual int64_t validation_samples() const = 0;  // 0: none held out

  // Elements of a graph input, row-major, for positions [first, first + count) of the stream.
  // REQUIRES: an input of the graph the source was opened for; first, count >= 0.
  virtual std::vector<double> Train(TensorId input, int64_t first, int64_t count) const = 0;

  // The same for samples held out, in a fixed order.
  // REQUIRES: first + count <= validation_samples().
  virtual std::vector<double> Validation(TensorId input, int64_t first, int64_t count) const = 0;
};

struct DataOptions {
  uint64_t seed = 1;
  double validation = 0.1;  // the fraction held out, 0 <= validation < 1
};

// `spec` is synthetic, text:PATH, libsvm:PATH, cifar:PATH,… or cifar100:PATH,…; reads the files
// whole. Errors name the spec, the line or record, and the remedy.
Result<std::unique_ptr<DataSource>> OpenData(const std::string& spec, const Graph& graph,
                                             const DataOptions& options);

// Of the bytes of a source's files, to notice that they are not those of before; "" for synthetic.
Result<std::string> DataHash(const std::string& spec);

// How many of `samples` the options hold out: the nearest whole number, at least one if any are
// wanted, and never all. REQUIRES: samples >= 1.
int64_t HeldOut(int64_t samples, const DataOptions& options);

}  // namespace heddle
