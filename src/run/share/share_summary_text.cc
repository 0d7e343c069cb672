// What a share took, as text and as JSON.

#include <fmt/format.h>

#include "base/units.h"
#include "run/share/share_summary.h"
#include "run/share/steady_part.h"

namespace heddle {
namespace {

std::string Time(double seconds) { return ToText(Seconds{seconds}); }

std::string Change(double measured, double expected) {
  return fmt::format("{:+.1f}%", 100 * (measured / expected - 1));
}

std::string Figure(const Interval& interval) {
  return fmt::format("{:.2f} [{:.2f}, {:.2f}]", interval.mean, interval.low, interval.high);
}

const char* KindOf(const ShareSummary& summary) {
  if (summary.shaped) return "emulated devices, shaped links";
  return summary.emulated ? "emulated" : "real";
}

// name, name_low, name_high; null where there is none.
void AddInterval(const std::string& name, const std::optional<Interval>& interval, Json& json) {
  json[name] = interval ? Json(interval->mean) : Json();
  json[name + "_low"] = interval ? Json(interval->low) : Json();
  json[name + "_high"] = interval ? Json(interval->high) : Json();
}

Json JobJson(const ShareSummary::Job& job) {
  Json line = {{"name", job.name},
               {"ended_well", job.well},
               {"alone_seconds", job.alone_seconds},
               {"shared_seconds", job.shared_seconds},
               {"alone_step_seconds", job.alone_step_seconds},
               {"shared_step_seconds", job.shared_step_seconds}};
  AddInterval("slowdown", job.slowdown, line);
  if (job.predicted_step_seconds > 0) line["predicted_step_seconds"] = job.predicted_step_seconds;
  if (job.hashes_equal) line["hashes_equal"] = *job.hashes_equal;
  if (!job.well) line["why"] = job.why;
  return line;
}

std::string JobText(const ShareSummary::Job& job) {
  std::string text = fmt::format("{:<12}", job.name);
  if (!job.well) return text + fmt::format("failed: {}\n", job.why);
  text += fmt::format("done after {}", Time(job.shared_seconds));
  if (job.shared_step_seconds > 0) {
    text += fmt::format("; a step {}", Time(job.shared_step_seconds));
    if (job.predicted_step_seconds > 0) {
      text += fmt::format(" (predicted {}: {})", Time(job.predicted_step_seconds),
                          Change(job.shared_step_seconds, job.predicted_step_seconds));
    }
  }
  if (job.slowdown) text += fmt::format(", {} times as long as alone", Figure(*job.slowdown));
  if (job.hashes_equal) {
    text += *job.hashes_equal ? "; parameters equal after every step"
                              : "; PARAMETERS DIFFER from those alone";
  }
  return text + "\n";
}

std::string GainText(const ShareSummary& summary) {
  std::string text = "gain        ";
  if (summary.impossible) {
    return text +
           "none can be stated: by what was measured a job was faster among others than alone, or "
           "all did more than devices and links can. The machine was busier in one part than in "
           "the other: run it again\n";
  }
  if (!summary.gain) {
    return text + fmt::format(
                      "none can be stated: {} turns in the steady part are too few, {} are "
                      "enough; give the jobs more steps\n",
                      summary.turns, kEnoughTurns);
  }
  text += fmt::format("{} of at most {:g}, steady part, {} turns", Figure(*summary.gain),
                      summary.gain_limit, summary.turns);
  if (!summary.enough_turns()) {
    text += fmt::format(": TOO FEW, {} are enough; give the jobs more steps", kEnoughTurns);
  }
  if (!summary.kept_time()) text += "; NOT VALID: the machine was too busy (pace, below)";
  return text + "\n";
}

// Against one after the other.
std::string ComparedText(const ShareSummary& summary) {
  std::string text = GainText(summary);
  if (!summary.gain) return text;
  text += fmt::format("devices     {:.1f}% of the time at work, one after the other {:.1f}%\n",
                      100 * summary.shared_use.devices, 100 * summary.serial_use.devices);
  if (summary.shared_use.network > 0) {
    text += fmt::format("network     {:.1f}%, one after the other {:.1f}%\n",
                        100 * summary.shared_use.network, 100 * summary.serial_use.network);
  }
  return text;
}

std::string PaceText(const ShareSummary& summary) {
  std::string text = fmt::format("pace        time {:.3g} times slower, {} of {} deadlines missed",
                                 summary.dilation, summary.missed, summary.deadlines);
  if (!summary.kept_time()) {
    text += fmt::format(
        ", more than 1%: the machine was too busy for figures to be valid; try again "
        "when it has less to do, or with --dilate {:.2g}",
        2 * summary.dilation);
  }
  return text + "\n";
}

}  // namespace

Json ShareSummaryToJson(const ShareSummary& summary) {
  Json json = {{"schema", "heddle.share-run/2"},
               {"serial_seconds", summary.serial_seconds},
               {"shared_seconds", summary.shared_seconds},
               {"serial_mean_completion_seconds", summary.serial_mean_completion},
               {"shared_mean_completion_seconds", summary.shared_mean_completion},
               {"gain_limit", summary.gain_limit},
               {"steady_turns", summary.turns},
               {"enough_turns", summary.enough_turns()},
               {"impossible", summary.impossible},
               {"period_bound_seconds", summary.period_bound},
               {"serial_device_use", summary.serial_use.devices},
               {"shared_device_use", summary.shared_use.devices},
               {"serial_network_use", summary.serial_use.network},
               {"shared_network_use", summary.shared_use.network},
               {"hashes_equal", summary.hashes_equal()},
               {"emulated", summary.emulated},
               {"shaped_links", summary.shaped},
               {"dilation", summary.dilation},
               {"deadlines", summary.deadlines},
               {"missed_deadlines", summary.missed},
               {"valid", summary.kept_time() && summary.enough_turns() && !summary.impossible},
               {"jobs", Json::array()}};
  AddInterval("measured_gain", summary.gain, json);
  AddInterval("measured_period_seconds", summary.period, json);
  for (const ShareSummary::Job& job : summary.jobs) json["jobs"].push_back(JobJson(job));
  return json;
}

std::string ShareSummaryText(const ShareSummary& summary) {
  std::string text;
  for (const ShareSummary::Job& job : summary.jobs) text += JobText(job);
  const bool compared = summary.serial_seconds > 0 && summary.failed() == nullptr;
  if (compared) text += ComparedText(summary);
  if (summary.period && summary.period_bound > 0) {
    text += fmt::format("period      {} measured [{}, {}], {} at least (T*): {}\n",
                        Time(summary.period->mean), Time(summary.period->low),
                        Time(summary.period->high), Time(summary.period_bound),
                        Change(summary.period->mean, summary.period_bound));
  }
  text += fmt::format("all done    after {} ({})", Time(summary.shared_seconds), KindOf(summary));
  if (compared) {
    text += fmt::format(
        ", one after the other {}; start-up included\n"
        "mean        {} until a job is done, one after the other {}",
        Time(summary.serial_seconds), Time(summary.shared_mean_completion),
        Time(summary.serial_mean_completion));
  }
  text += "\n";
  if (summary.emulated && summary.deadlines > 0) text += PaceText(summary);
  return text;
}

}  // namespace heddle
