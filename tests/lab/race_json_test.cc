#include "lab/race_json.h"

#include <gtest/gtest.h>

#include "lab/ground.h"

namespace heddle {
namespace {

// What one side writes the other reads: all of it.
TEST(RaceJson, NothingIsLostOnTheWay) {
  RaceOptions options;
  options.stages = {3};
  options.methods = {"pd", "rpd", "local", "gpipe"};
  options.noises = {0, 0.5};
  options.step_sizes = 4;
  options.refine = 1;
  options.target = 8;
  options.trial.ticks = 120;
  options.trial.points = 4;
  options.trial.staleness = true;
  const Json written = RaceOptionsToJson(options);
  const RaceOptions read = RaceOptionsFromJson(JsonField(written, "options")).value();
  EXPECT_EQ(RaceOptionsToJson(read), written);
  const auto objective = SmallQuadratic();
  const Race race = RunRace(*objective, read).value();
  ASSERT_TRUE(race.entries[0].staleness);
  EXPECT_GT(race.entries[0].staleness->mean, 0);
  EXPECT_TRUE(race.entries[1].staleness);
  EXPECT_FALSE(race.entries[2].staleness) << "replicas read what they have";
  RaceSubject subject = SubjectOf("quadratic", *objective);
  subject.work = UpdateWork{2, 5};
  const Json json = RaceToJson(subject, options, race);
  const RaceReport report = RaceFromJson(JsonField(json, "race"), options).value();
  EXPECT_EQ(RaceToJson(report.subject, options, report.race), json);
  EXPECT_EQ(report.stages, options.stages);
  EXPECT_FALSE(RaceFromJson(JsonField(Json::object(), "race"), options).ok());
}

}  // namespace
}  // namespace heddle
