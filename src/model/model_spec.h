// ModelSpec: a model by name with parameters, as on the command line.
//
//   ParseModelSpec("gpt?layers=48&hidden=1600")  ->  {"gpt", {{"layers", 48}, {"hidden", 1600}}}
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace heddle {

struct ModelSpec {
  std::string name;
  std::map<std::string, int64_t> values;

  std::string ToString() const;
};

Result<ModelSpec> ParseModelSpec(std::string_view text);

}  // namespace heddle
