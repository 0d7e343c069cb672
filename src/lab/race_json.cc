#include "lab/race_json.h"

#include <cmath>
#include <limits>

namespace heddle {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// JSON has no infinity.
Json NumberOrNull(double value) { return std::isfinite(value) ? Json(value) : Json(); }
double NumberOf(const Json& json) { return json.is_null() ? kNever : json.get<double>(); }

// How many ticks a curve's points are.
Json CurveToJson(const RaceEntry& entry, const TrialOptions& trial) {
  Json json{{"method", entry.method},    {"stages", entry.stages},     {"noise", entry.noise},
            {"ticks", Json::array()},    {"loss_mean", Json::array()}, {"loss_low", Json::array()},
            {"loss_high", Json::array()}};
  for (size_t point = 0; point < entry.curve.size(); ++point) {
    json["ticks"].push_back(PointTick(trial, static_cast<int>(point)));
    json["loss_mean"].push_back(NumberOrNull(entry.curve[point].mean));
    json["loss_low"].push_back(NumberOrNull(entry.curve[point].low));
    json["loss_high"].push_back(NumberOrNull(entry.curve[point].high));
  }
  return json;
}

Json IntervalToJson(const std::optional<Interval>& interval) {
  if (!interval) return Json();
  return {{"mean", interval->mean}, {"low", interval->low}, {"high", interval->high}};
}

std::optional<Interval> IntervalOf(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return Interval{json.at("mean"), json.at("low"), json.at("high")};
}

// name_mean, name_low, name_high.
void AddInterval(const std::string& name, const Interval& interval, Json& row) {
  row[name + "_mean"] = NumberOrNull(interval.mean);
  row[name + "_low"] = NumberOrNull(interval.low);
  row[name + "_high"] = NumberOrNull(interval.high);
}

Interval IntervalNamed(const std::string& name, const Json& row) {
  return {NumberOf(row.at(name + "_mean")), NumberOf(row.at(name + "_low")),
          NumberOf(row.at(name + "_high"))};
}

Json RowToJson(const std::string& name, const RaceOptions& options, const RaceEntry& entry) {
  Json row{{"objective", name},
           {"method", entry.method},
           {"stages", entry.stages},
           {"noise", entry.noise},
           {"step_size", entry.step_size},
           {"step_sizes_tried", entry.tried},
           {"ticks", options.trial.ticks},
           {"against_first", IntervalToJson(entry.against_first)},
           {"verdict", ToText(entry.verdict)}};
  if (entry.rounds > 0) row["rounds"] = entry.rounds;
  if (entry.diverged > 0) row["diverged_seeds"] = entry.diverged;
  AddInterval("loss", entry.final, row);
  if (entry.held_out) AddInterval("held_out", *entry.held_out, row);
  if (entry.staleness) AddInterval("staleness", *entry.staleness, row);
  if (options.target) {
    row["seeds_at_target"] = entry.reached;
    AddInterval("ticks_to_target", entry.ticks_to_target.value_or(Interval{kNever, kNever, kNever}),
                row);
    row["ticks_against_first"] = IntervalToJson(entry.ticks_against_first);
  }
  return row;
}

RaceEntry EntryOf(const Json& row, const Json& curve, const RaceOptions& options) {
  RaceEntry entry;
  entry.method = row.at("method");
  entry.stages = row.at("stages");
  entry.noise = row.at("noise");
  entry.step_size = row.at("step_size");
  entry.tried = row.at("step_sizes_tried");
  entry.against_first = IntervalOf(row.at("against_first"));
  entry.verdict = ParseStanding(row.at("verdict").get<std::string>()).value_or(Standing::kOpen);
  entry.rounds = row.value("rounds", int64_t{0});
  entry.diverged = row.value("diverged_seeds", 0);
  entry.final = IntervalNamed("loss", row);
  if (row.contains("held_out_mean")) entry.held_out = IntervalNamed("held_out", row);
  if (row.contains("staleness_mean")) entry.staleness = IntervalNamed("staleness", row);
  if (options.target) {
    entry.reached = row.at("seeds_at_target");
    const Interval ticks = IntervalNamed("ticks_to_target", row);
    if (std::isfinite(ticks.mean)) entry.ticks_to_target = ticks;
    entry.ticks_against_first = IntervalOf(row.at("ticks_against_first"));
  }
  for (size_t point = 0; point < curve.at("loss_mean").size(); ++point) {
    entry.curve.push_back({NumberOf(curve.at("loss_mean").at(point)),
                           NumberOf(curve.at("loss_low").at(point)),
                           NumberOf(curve.at("loss_high").at(point))});
  }
  return entry;
}

RaceReport ReportOf(const Json& json, const RaceOptions& options) {
  RaceReport report;
  report.subject.name = json.at("objective");
  report.subject.dimension = json.at("dimension");
  report.subject.has_constants = !json.at("smoothness").is_null();
  if (report.subject.has_constants) {
    report.subject.smoothness = json.at("smoothness");
    report.subject.lowest = json.at("lowest_loss");
  }
  if (json.contains("update_work")) {
    const Json& work = json.at("update_work");
    report.subject.work = UpdateWork{work.at("pipedream_seconds"), work.at("randomized_seconds")};
  }
  report.race.lowest_step = json.at("grid").at("low");
  report.race.highest_step = json.at("grid").at("high");
  report.stages = json.at("stages").get<std::vector<int>>();
  for (size_t k = 0; k < json.at("rows").size(); ++k) {
    report.race.entries.push_back(EntryOf(json.at("rows").at(k), json.at("curves").at(k), options));
  }
  return report;
}

RaceOptions OptionsOf(const Json& json) {
  RaceOptions options;
  options.stages = json.at("stages").get<std::vector<int>>();
  options.methods = json.at("methods").get<std::vector<std::string>>();
  options.noises = json.at("noises").get<std::vector<double>>();
  options.seeds = json.at("seeds");
  options.first_seed = json.at("first_seed");
  options.tune_seeds = json.at("tune_seeds");
  options.step_sizes = json.at("step_sizes");
  options.refine = json.at("refine");
  options.powers_of_two = json.at("powers_of_two");
  if (!json.at("target").is_null()) options.target = json.at("target").get<double>();
  options.clock.forward = json.at("forward");
  options.clock.backward = json.at("backward");
  options.clock.latency = json.at("latency");
  options.trial.ticks = json.at("ticks");
  options.trial.points = json.at("points");
  options.trial.every = json.at("every");
  options.trial.microbatches = json.at("microbatches");
  options.trial.average_ticks = json.at("average_ticks");
  options.trial.staleness = json.at("staleness");
  options.threads = json.at("threads");
  return options;
}

}  // namespace

RaceSubject SubjectOf(const std::string& name, const Objective& objective) {
  return {name,
          objective.dimension(),
          objective.has_constants(),
          objective.smoothness(),
          objective.lowest(),
          std::nullopt};
}

Json RaceToJson(const RaceSubject& subject, const RaceOptions& options, const Race& race) {
  Json json;
  json["schema"] = "heddle.lab.race/1";
  json["objective"] = subject.name;
  json["dimension"] = subject.dimension;
  json["smoothness"] = subject.has_constants ? Json(subject.smoothness) : Json();
  json["lowest_loss"] = subject.has_constants ? Json(subject.lowest) : Json();
  json["stages"] = options.stages;
  json["seeds"] = options.seeds;
  json["tune_seeds"] = options.tune_seeds;
  json["interval"] = "95% t-interval over seeds";
  json["clock"] = {{"forward", options.clock.forward},
                   {"backward", options.clock.backward},
                   {"latency", options.clock.latency},
                   {"average", options.trial.average_ticks}};
  json["every"] = options.trial.every;
  if (options.target) json["target"] = *options.target;
  if (subject.work) {
    json["update_work"] = {{"pipedream_seconds", subject.work->pipedream},
                           {"randomized_seconds", subject.work->randomized},
                           {"ratio", subject.work->ratio()}};
  }
  json["grid"] = {{"low", race.lowest_step},
                  {"high", race.highest_step},
                  {"count", options.step_sizes},
                  {"refine", options.refine}};
  json["rows"] = Json::array();
  json["curves"] = Json::array();
  for (const RaceEntry& entry : race.entries) {
    json["rows"].push_back(RowToJson(subject.name, options, entry));
    json["curves"].push_back(CurveToJson(entry, options.trial));
  }
  return json;
}

Result<RaceReport> RaceFromJson(const JsonField& json, const RaceOptions& options) {
  try {
    return ReportOf(json.json(), options);
  } catch (const Json::exception& error) {
    return json.Bad(error.what());
  }
}

Json RaceOptionsToJson(const RaceOptions& options) {
  return {{"stages", options.stages},
          {"methods", options.methods},
          {"noises", options.noises},
          {"seeds", options.seeds},
          {"first_seed", options.first_seed},
          {"tune_seeds", options.tune_seeds},
          {"step_sizes", options.step_sizes},
          {"refine", options.refine},
          {"powers_of_two", options.powers_of_two},
          {"target", options.target ? Json(*options.target) : Json()},
          {"forward", options.clock.forward},
          {"backward", options.clock.backward},
          {"latency", options.clock.latency},
          {"ticks", options.trial.ticks},
          {"points", options.trial.points},
          {"every", options.trial.every},
          {"microbatches", options.trial.microbatches},
          {"average_ticks", options.trial.average_ticks},
          {"staleness", options.trial.staleness},
          {"threads", options.threads}};
}

Result<RaceOptions> RaceOptionsFromJson(const JsonField& json) {
  try {
    return OptionsOf(json.json());
  } catch (const Json::exception& error) {
    return json.Bad(error.what());
  }
}

}  // namespace heddle
