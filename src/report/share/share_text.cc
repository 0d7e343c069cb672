#include "report/share/share_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json_field.h"
#include "base/text.h"
#include "program/plan/certificate_json.h"
#include "report/job_gantt.h"
#include "report/text_width.h"

namespace heddle {
namespace {

const std::string& NameOfJob(const ShareInputs& inputs, size_t job) {
  return inputs.jobs[job].spec.name;
}

std::vector<std::string> NamesIn(const ShareInputs& inputs, const std::vector<size_t>& jobs) {
  std::vector<std::string> names;
  for (const size_t j : jobs) names.push_back(NameOfJob(inputs, j));
  return names;
}

std::string Percent(double part) { return fmt::format("{:.1f}%", 100 * part); }

// The fullest device: "a:0 62%".
std::string FullestOf(const ShareInputs& inputs, const ShareGroup& group) {
  double most = -1;
  std::string text;
  for (size_t d = 0; d < group.memory.size(); ++d) {
    const DeviceId id{static_cast<int32_t>(d)};
    const auto has = static_cast<double>(inputs.cluster->type_of(id).memory.value);
    const double fill = static_cast<double>(group.memory[d].value) / has;
    if (fill <= most) continue;
    most = fill;
    text = fmt::format("{} {:.0f}%", inputs.cluster->device(id).name, 100 * fill);
  }
  return text;
}

bool Shares(const SharePlan& plan) {
  return std::any_of(plan.groups.begin(), plan.groups.end(),
                     [](const ShareGroup& group) { return group.jobs.size() > 1; });
}

std::string JobsTable(const ShareInputs& inputs, const SharePlan& plan, const TableStyle& style) {
  TextTable table({{"job"},
                   {"strategy", Align::kLeft, 1},
                   {"compute", Align::kRight, 2},
                   {"network", Align::kRight, 2},
                   {"waits", Align::kRight, 3},
                   {"step alone", Align::kRight},
                   {"shared", Align::kRight},
                   {"slowdown", Align::kRight},
                   {"done alone", Align::kRight},
                   {"shared", Align::kRight}});
  for (const ShareGroup& group : plan.groups) {
    for (size_t k = 0; k < group.jobs.size(); ++k) {
      const size_t j = group.jobs[k];
      const PlannedJob& job = inputs.jobs[j];
      table.AddRow({job.spec.name, job.plan.strategy, ToText(job.times.compute),
                    ToText(job.times.communicate), ToText(job.times.exposed),
                    ToText(job.times.alone()), ToText(group.iteration[k]),
                    fmt::format("{:.2f}", group.slowdown[k]), ToText(plan.alone.done[j]),
                    ToText(plan.shared.done[j])});
    }
  }
  return table.Print(style);
}

std::string GroupsTable(const ShareInputs& inputs, const SharePlan& plan, const TableStyle& style) {
  TextTable table({{"group"},
                   {"order"},
                   {"period", Align::kRight},
                   {"best possible", Align::kRight, 1},
                   {"gain", Align::kRight},
                   {"devices", Align::kRight},
                   {"network", Align::kRight},
                   {"memory", Align::kRight, 2}});
  for (const ShareGroup& group : plan.groups) {
    const bool alone = group.jobs.size() == 1;
    std::string order = "alone";
    if (!alone && group.devices == DeviceSharing::kFirstCome) order = "first come";
    if (!alone && group.devices == DeviceSharing::kTurns) {
      order = fmt::format("{}, {} turns", NameOf(inputs.file.share.order), group.sequence.size());
    }
    const bool turns = group.devices == DeviceSharing::kTurns;
    table.AddRow({Join(NamesIn(inputs, group.jobs), " + "), order,
                  alone || turns ? ToText(group.period) : "",
                  alone || turns ? ToText(group.best_period) : "", alone ? "" : Percent(group.gain),
                  Percent(group.use.device), Percent(group.use.network), FullestOf(inputs, group)},
                 alone ? Tone::kPlain : Tone::kGood);
  }
  return table.Print(style);
}

std::string Totals(const SharePlan& plan, const TableStyle& style) {
  TextTable table({{""},
                   {"one after the other", Align::kRight},
                   {"this plan", Align::kRight},
                   {"", Align::kRight}});
  const auto change = [](double before, double after) {
    return fmt::format("{:+.1f}%", 100 * (after / before - 1));
  };
  const auto seconds = [&](const std::string& what, Seconds before, Seconds after) {
    table.AddRow({what, ToText(before), ToText(after), change(before.value, after.value)});
  };
  seconds("makespan", plan.alone.makespan, plan.shared.makespan);
  seconds("mean completion time", plan.alone.mean, plan.shared.mean);
  table.AddRow(
      {"devices compute", Percent(plan.use_alone.device), Percent(plan.use_shared.device)});
  table.AddRow(
      {"network carries", Percent(plan.use_alone.network), Percent(plan.use_shared.network)});
  return table.Print(style);
}

std::string BaselineTable(const std::vector<ShareBaseline>& baselines, const ShareInputs& inputs,
                          const ShareGroup& group, const TableStyle& style) {
  std::vector<Column> columns = {{"in the same simulator"}};
  for (const std::string& name : NamesIn(inputs, group.jobs)) {
    columns.push_back({"step of " + name, Align::kRight});
  }
  columns.push_back({"gain", Align::kRight});
  TextTable table(columns);
  for (const ShareBaseline& baseline : baselines) {
    std::vector<std::string> cells = {baseline.name};
    for (const Seconds iteration : baseline.iteration) cells.push_back(ToText(iteration));
    cells.push_back(Percent(baseline.gain));
    table.AddRow(std::move(cells));
  }
  return table.Print(style);
}

// Two passes of the sequence, once they look alike; where there is none, some steps of the fastest.
std::string Picture(const ShareGroup& group, const TableStyle& style) {
  JobGanttOptions options;
  options.width = style.width;
  options.colour = style.colour;
  options.start = group.period * 3;
  options.span = group.period * 2;
  if (group.devices == DeviceSharing::kFirstCome) {
    options.start = group.timeline.timeline.end() / 3;
    options.span = *std::min_element(group.iteration.begin(), group.iteration.end()) * 4;
  }
  return DrawJobGantt(group.timeline, options);
}

Json CompletionJson(const Completion& completion) {
  return {{"makespan_seconds", completion.makespan.value},
          {"mean_completion_seconds", completion.mean.value}};
}

Json UseJson(const ShareUse& use) { return {{"devices", use.device}, {"network", use.network}}; }

Json GroupJson(const ShareInputs& inputs, const ShareGroup& group,
               const std::vector<ShareBaseline>& baselines) {
  Json json;
  json["jobs"] = NamesIn(inputs, group.jobs);
  json["period_seconds"] = group.period.value;
  json["best_period_seconds"] = group.best_period.value;
  json["gain"] = group.gain;
  json["token"] = group.devices == DeviceSharing::kTurns ? "turns" : "first-come";
  json["sequence"] = Json::array();
  for (const int32_t place : group.sequence) {
    json["sequence"].push_back(NameOfJob(inputs, group.jobs[static_cast<size_t>(place)]));
  }
  json["notes"] = group.notes;
  json["use"] = UseJson(group.use);
  json["memory"] = Json::array();
  for (size_t d = 0; d < group.memory.size(); ++d) {
    const DeviceId id{static_cast<int32_t>(d)};
    json["memory"].push_back({{"device", inputs.cluster->device(id).name},
                              {"bytes", group.memory[d].value},
                              {"capacity_bytes", inputs.cluster->type_of(id).memory.value}});
  }
  json["one_after_the_other"] = CompletionJson(group.alone);
  json["shared"] = CompletionJson(group.together);
  for (const ShareBaseline& baseline : baselines) {
    Json row = {{"name", baseline.name}, {"gain", baseline.gain}};
    for (const Seconds step : baseline.iteration) row["step_seconds"].push_back(step.value);
    json["baselines"].push_back(std::move(row));
  }
  return json;
}

Json JobJson(const PlannedJob& job, const ShareGroup& group, size_t place) {
  Json json;
  json["name"] = job.spec.name;
  json["slowdown"] = group.slowdown[place];
  json["strategy"] = job.plan.strategy;
  json["steps"] = job.spec.steps;
  json["compute_seconds"] = job.times.compute.value;
  json["communicate_seconds"] = job.times.communicate.value;
  json["exposed_seconds"] = job.times.exposed.value;
  json["alone_step_seconds"] = job.times.alone().value;
  json["shared_step_seconds"] = group.iteration[place].value;
  json["certificate"] = CertificateToJson(job.plan.search.certificate);
  return json;
}

}  // namespace

std::string ShareText(const ShareInputs& inputs, const SharePlan& plan,
                      const GroupBaselines& baselines, const TableStyle& style) {
  std::string text =
      Shares(plan) ? fmt::format("Share: {} gained (simulated).\n\n", Percent(plan.predicted_gain))
                   : std::string("Do not share: one after the other is better.\n\n");
  text += GroupsTable(inputs, plan, style) + "\n" + JobsTable(inputs, plan, style) + "\n" +
          Totals(plan, style);
  for (const ShareRefusal& refusal : plan.refusals) {
    text += "\n" + Wrapped(fmt::format("Not {}: {}.", Join(NamesIn(inputs, refusal.jobs), " + "),
                                       refusal.reason),
                           style.width);
  }
  for (size_t g = 0; g < plan.groups.size(); ++g) {
    if (plan.groups[g].jobs.size() < 2) continue;
    for (const std::string& note : plan.groups[g].notes) {
      text += "\n" + Wrapped(fmt::format("Note: {}.", note), style.width);
    }
    text += "\n" + Picture(plan.groups[g], style);
    if (baselines.empty()) continue;
    text += "\n" + BaselineTable(baselines[g], inputs, plan.groups[g], style);
  }
  return text;
}

Json ShareJson(const ShareInputs& inputs, const SharePlan& plan, const GroupBaselines& baselines) {
  Json json;
  json["schema"] = "heddle.share/1";
  json["share"] = Shares(plan);
  json["predicted_gain"] = plan.predicted_gain;
  json["groups"] = Json::array();
  std::vector<Json> jobs(inputs.jobs.size());
  for (size_t g = 0; g < plan.groups.size(); ++g) {
    const ShareGroup& group = plan.groups[g];
    json["groups"].push_back(
        GroupJson(inputs, group, baselines.empty() ? std::vector<ShareBaseline>() : baselines[g]));
    for (size_t k = 0; k < group.jobs.size(); ++k) {
      const size_t j = group.jobs[k];
      jobs[j] = JobJson(inputs.jobs[j], group, k);
      jobs[j]["done_alone_seconds"] = plan.alone.done[j].value;
      jobs[j]["done_shared_seconds"] = plan.shared.done[j].value;
    }
  }
  json["jobs"] = jobs;
  json["one_after_the_other"] = CompletionJson(plan.alone);
  json["one_after_the_other"]["use"] = UseJson(plan.use_alone);
  json["shared"] = CompletionJson(plan.shared);
  json["shared"]["use"] = UseJson(plan.use_shared);
  json["refusals"] = Json::array();
  for (const ShareRefusal& refusal : plan.refusals) {
    json["refusals"].push_back(
        {{"jobs", NamesIn(inputs, refusal.jobs)}, {"reason", refusal.reason}});
  }
  return json;
}

}  // namespace heddle
