// Races as JSON: what `heddle lab race --json` prints, and what heddle and heddle-worker tell each
// other of a race on a real model.
//
//   Json json = RaceToJson(subject, options, race);
//   HEDDLE_ASSIGN(const RaceReport report, RaceFromJson(JsonField(json, "race"), options));
//
// RaceFromJson ∘ RaceToJson keeps everything.
#pragma once

#include <optional>
#include <string>

#include "base/json_field.h"
#include "lab/block_work.h"
#include "lab/race.h"

namespace heddle {

// What is minimised, as far as those who read about it care.
struct RaceSubject {
  std::string name;
  int64_t dimension = 0;
  bool has_constants = true;
  double smoothness = 0;
  double lowest = 0;
  std::optional<UpdateWork> work;  // of a plan: seconds on its devices, per update of a block
};
RaceSubject SubjectOf(const std::string& name, const Objective& objective);

Json RaceToJson(const RaceSubject& subject, const RaceOptions& options, const Race& race);

struct RaceReport {
  RaceSubject subject;
  std::vector<int> stages;  // that it was raced on
  Race race;
};
// `options` are those of the race.
Result<RaceReport> RaceFromJson(const JsonField& json, const RaceOptions& options);

// All but the progress.
Json RaceOptionsToJson(const RaceOptions& options);
Result<RaceOptions> RaceOptionsFromJson(const JsonField& json);

}  // namespace heddle
