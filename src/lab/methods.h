// The methods of a race, by name.
//
//   HEDDLE_ASSIGN(const Method* method, FindMethod("pd"));
//   const Curve curve = method->run(trial);
//
// Every method is a function of its trial alone: the same trial gives the same bits.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "lab/trial.h"

namespace heddle {

struct Method {
  std::string name;
  std::string about;  // one line
  std::function<Curve(const Trial&)> run;
  std::function<int64_t(const Trial&)> rounds = nullptr;  // of local methods
  std::optional<DelayMode> draws =
      {};  // of randomized methods: what Trial::draws may hold for them
};

const std::vector<Method>& Methods();
Result<const Method*> FindMethod(const std::string& name);

}  // namespace heddle
