// What a file with a Program as text leaves to its reader: whether it is one, and the model that it
// names. Its header states a hash; the batch is that of a step, and dtype, optimizer and clipping
// are those that fit the hash.
//
//   if (IsProgramText(text)) HEDDLE_ASSIGN(const Graph graph, ModelOf(program, "plan.heddle"));
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/graph.h"
#include "program/program.h"

namespace heddle {

// Where a plan may stand as well, which is JSON.
bool IsProgramText(std::string_view text);

// How many batches of the model a body works through: one for each update.
int64_t BatchesPerBody(const Program& program);

// `profiled_rate` is asked where the model is a layer profile: how fast the device that it was
// measured on is in a type. REQUIRES: the Program names a model.
Result<Graph> ModelOf(const Program& program, const std::string& file,
                      const std::function<Result<FlopRate>(DType)>& profiled_rate = {});

}  // namespace heddle
