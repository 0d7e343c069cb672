// Problems: the objectives of a race, by name.
//
//   HEDDLE_ASSIGN(const auto objective, MakeProblem("logistic", {.data = "agaricus.txt.train"}));
//
//   quadratic       tridiagonal (2, -1) + 0.01 · I, d = 512
//   quadratic-load  the same under an even load, from rest: all of the loss in slow modes
//   least-squares   256 samples of 128 standard normal features; labels a · w + 0.1 ε
//   chain-rows      600 samples of 512 features, least squares whose Hessian is that of quadratic;
//                   labels a · w, so that the lowest loss is 0
//   logistic        512 samples of 64 standard normal features, P(y = 1) = σ(3 a · w), ‖w‖ ≈ 1; or
//                   the rows of a libsvm file with two labels; λ = 1e-4
//   lm              the next character of a made text of 200000, or of a file, by a transformer
//
// Made data come from one fixed seed: the seeds of a race change the start and the noise only; with
// `DataBySeed` every seed has data of its own. Linear models take microbatches of `batch` rows.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lab/minibatch_model.h"
#include "lab/objective.h"
#include "lab/transformer_units.h"

namespace heddle {

struct ObjectiveOptions {
  std::string data = {};  // logistic: a libsvm file; lm: a text
  int64_t dimension = 0;  // 0: as above; not with data, not of lm
  // Of the linear models:
  int64_t rows = 0;        // samples; 0: as above; not with data
  int64_t batch = 0;       // rows of a microbatch; 0: all of them
  double sharpness = 0;    // logistic: of made labels; 0: 3
  uint64_t data_seed = 0;  // of made data
  LinearStart start = LinearStart::kNormal;
  RowOrder order = RowOrder::kCyclic;  // of the rows of microbatches
  NetworkShape network = {};           // lm; its alphabet is the text's
};

struct Problem {
  std::string name;
  std::string about;
};
const std::vector<Problem>& Problems();

Result<std::unique_ptr<Objective>> MakeProblem(const std::string& name,
                                               const ObjectiveOptions& options);

// Whether a problem's data are made from a seed and its microbatches may be rows.
bool IsLinear(const std::string& name);

// The same problem with data of its own for each of the seeds first … first + count - 1.
class DataBySeed {
 public:
  static Result<DataBySeed> Make(const std::string& name, const ObjectiveOptions& options,
                                 uint64_t first, int count, int threads);
  // REQUIRES: one of those.
  const Objective& Of(uint64_t seed) const { return *objectives_[seed - first_]; }

 private:
  uint64_t first_ = 0;
  std::vector<std::unique_ptr<Objective>> objectives_;
};

// A language model of a text; `where` names it in errors.
Result<std::unique_ptr<Objective>> LanguageModelOf(std::string_view text, const std::string& where,
                                                   const NetworkShape& network);

// Logistic regression on the text of a libsvm file; `where` names it in errors.
Result<std::unique_ptr<Objective>> LogisticOfLibsvm(std::string_view text, const std::string& where,
                                                    const ObjectiveOptions& options = {});

}  // namespace heddle
