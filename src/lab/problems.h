// Problems: the objectives of a race, by name.
//
//   HEDDLE_ASSIGN(const auto objective, MakeProblem("logistic", {.data = "agaricus.txt.train"}));
//
//   quadratic       tridiagonal (2, -1) + 0.01 · I, d = 512
//   quadratic-load  the same under an even load, from rest: all of the loss in slow modes
//   least-squares   256 samples of 128 standard normal features; labels a · w + 0.1 ε
//   logistic        512 samples of 64 standard normal features, P(y = 1) = σ(3 a · w), ‖w‖ ≈ 1; or
//                   the rows of a libsvm file with two labels; λ = 1e-4
//   lm              the next character of a made text of 200000, or of a file, by a transformer
//
// Made data come from one fixed seed: the seeds of a race change the start and the noise only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lab/objective.h"
#include "lab/transformer_units.h"

namespace heddle {

struct ObjectiveOptions {
  std::string data = {};      // logistic: a libsvm file; lm: a text
  int64_t dimension = 0;      // 0: as above; not with data, not of lm
  NetworkShape network = {};  // lm; its alphabet is the text's
};

struct Problem {
  std::string name;
  std::string about;
};
const std::vector<Problem>& Problems();

Result<std::unique_ptr<Objective>> MakeProblem(const std::string& name,
                                               const ObjectiveOptions& options);

// A language model of a text; `where` names it in errors.
Result<std::unique_ptr<Objective>> LanguageModelOf(std::string_view text, const std::string& where,
                                                   const NetworkShape& network);

// Logistic regression on the text of a libsvm file; `where` names it in errors.
Result<std::unique_ptr<Objective>> LogisticOfLibsvm(std::string_view text,
                                                    const std::string& where);

}  // namespace heddle
