// Text data: the bytes of a file as tokens; the target of each is the byte after it.
//
//   file     T h e   q u i c k          s = 4
//   sample 0 T h e _          targets h e _ q
//   sample 1         q u i c  targets u i c k
//
// A sample is a window of s + 1 bytes; windows start at multiples of s, what is left at the end is
// not used. The last windows are held out: the end of the text, which training has not seen but for
// the first byte, the target of the last token before it.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "model/graph.h"
#include "run/data/data_source.h"

namespace heddle {

Result<std::unique_ptr<DataSource>> MakeTextData(std::string contents, const std::string& spec,
                                                 const Graph& graph, const DataOptions& options);

}  // namespace heddle
