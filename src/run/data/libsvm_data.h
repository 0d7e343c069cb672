// libsvm data: one sample a line, its label and the features that are not zero.
//
//   +1 3:1 10:0.5 11:1      label, then index:value
//   -1 1:1 10:1             # a comment, to the end of the line
//
// Labels are any numbers; in ascending order they become the classes 0, 1, …, so that -1/+1, 0/1
// and 1…7 all work. Indices count from 1, or from 0 if index 0 occurs in the file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/graph.h"
#include "run/data/data_source.h"

namespace heddle {

// The rows of a file, sparse: row r has the entries [begins[r], begins[r + 1]).
struct LibsvmRows {
  std::vector<double> labels;  // as written
  std::vector<int64_t> lines;  // where the row is in the file, from 1
  std::vector<size_t> begins;  // one more than rows
  std::vector<int64_t> index;  // of an entry, as written; none twice in a row
  std::vector<double> value;   // of an entry
  int64_t least_index = 1;     // 0 if index 0 occurs, else 1

  size_t rows() const { return labels.size(); }
};

Result<LibsvmRows> ParseLibsvm(std::string_view text, const std::string& where);

Result<std::unique_ptr<DataSource>> MakeLibsvmData(LibsvmRows rows, const std::string& spec,
                                                   const Graph& graph, const DataOptions& options);

}  // namespace heddle
