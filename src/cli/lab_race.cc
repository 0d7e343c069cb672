// heddle lab race: every method at its best step size, loss against simulated time.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "base/destination.h"
#include "base/file.h"
#include "base/json_field.h"
#include "base/text.h"
#include "cli/lab.h"
#include "cli/lab_paper.h"
#include "cli/value_check.h"
#include "cli/worker_process.h"
#include "lab/methods.h"
#include "lab/problems.h"
#include "lab/race_json.h"
#include "report/lab/race_text.h"
#include "report/text_width.h"

namespace heddle {
namespace {

struct Flags {
  std::string objective = "quadratic";
  ObjectiveOptions problem;
  std::string stages = "2,4,8,16,32";
  std::string methods = "pd,rpd,local,local-plain,gpipe,2bw";
  std::string noise = "0";
  std::string plot;
  std::string target;
  std::string paper;
  std::string start = "normal", order = "cyclic";
  bool fresh_data = false;
  RaceOptions race;
};

// One objective for all seeds, or one for each.
struct Track {
  std::unique_ptr<Objective> same;
  std::optional<DataBySeed> by_seed;
  const Objective& Of(uint64_t seed) const { return by_seed ? by_seed->Of(seed) : *same; }
};

Result<Track> MakeTrack(const Flags& flags, const RaceOptions& options) {
  Track track;
  if (!flags.fresh_data) {
    HEDDLE_ASSIGN(track.same, MakeProblem(flags.objective, flags.problem));
    return track;
  }
  HEDDLE_ASSIGN(track.by_seed,
                DataBySeed::Make(flags.objective, flags.problem, options.first_seed,
                                 options.seeds + options.tune_seeds, options.threads));
  return track;
}

// Local methods with so few rounds that what is left of the last one weighs much.
std::string FewRounds(const RaceOptions& options, const Race& race) {
  const RaceEntry* worst = nullptr;
  for (const RaceEntry& entry : race.entries) {
    const bool local = FindMethod(entry.method).value()->rounds != nullptr;
    if (local && entry.rounds < kFewRounds && (!worst || entry.rounds < worst->rounds)) {
      worst = &entry;
    }
  }
  if (worst == nullptr) return "";
  return fmt::format(
      "warning: only {} whole rounds of {} on {} stages in {} ticks; below {} the last one, which "
      "may be cut anywhere, weighs too much: give more --ticks",
      worst->rounds, worst->method, worst->stages, options.trial.ticks, kFewRounds);
}

// Without noise, with one start, one order of rows and the same data a seed changes nothing.
std::string SameSeeds(const Race& race) {
  const bool same =
      std::all_of(race.entries.begin(), race.entries.end(), [](const RaceEntry& entry) {
        const std::vector<double>& left = entry.left;
        return left.size() > 1 && std::equal(left.begin() + 1, left.end(), left.begin());
      });
  if (!same) return "";
  return "warning: every seed made the same run, so there is one run and no verdict: give --noise, "
         "--start normal, --order shuffled or --fresh-data";
}

constexpr std::string_view kPlanPrefix = "plan:";

bool OnPlan(const Flags& flags) { return flags.objective.starts_with(kPlanPrefix); }

// What a network takes unless told otherwise: a gradient costs it a hundred times what it costs the
// other objectives, and more where libtorch computes it.
void SetNetworkDefaults(const Command& command, Flags& flags) {
  const auto unless_given = [&](const char* flag, auto& option, auto value) {
    if (!command.Find(flag)->given()) option = value;
  };
  unless_given("--stages", flags.stages, "2,4,8");
  unless_given("--methods", flags.methods,
               OnPlan(flags) ? "pd,rpd,local,gpipe" : "pd,local,local-plain,gpipe,2bw");
  unless_given("--ticks", flags.race.trial.ticks, OnPlan(flags) ? 400 : 2000);
  unless_given("--points", flags.race.trial.points, 20);
  unless_given("--step-sizes", flags.race.step_sizes, 6);
  unless_given("--refine", flags.race.refine, 1);
}

// How far the race is and how long it may take.
class RaceProgress {
 public:
  explicit RaceProgress(const Terminal& terminal) : terminal_(terminal), start_(Clock::now()) {}

  void Show(int64_t done, int64_t known) {
    const double passed = std::chrono::duration<double>(Clock::now() - start_).count();
    const double left = passed * static_cast<double>(known - done) / static_cast<double>(done);
    terminal_.Progress(
        fmt::format("racing: {} of {} trials, about {:.0f} s left …", done, known, left));
    constexpr double kSure = 5, kLong = 60;
    if (told_ || passed < kSure) return;
    told_ = true;
    if (left < kLong || isatty(fileno(terminal_.err)) != 0) return;
    fmt::print(terminal_.err,
               "racing: {} trials, about {:.0f} min; more where a step size is at an edge\n", known,
               (passed + left) / 60);
  }

 private:
  using Clock = std::chrono::steady_clock;
  const Terminal& terminal_;
  Clock::time_point start_;
  bool told_ = false;
};

Status CheckPlotName(const std::string& plot) {
  if (plot.empty() || plot.ends_with(".svg") || plot.ends_with(".html")) return Ok();
  return Usage("--plot: \"" + plot + "\" is neither .svg nor .html", "name the kind by the ending");
}

Result<RaceOptions> ToOptions(const Flags& flags) {
  RaceOptions options = flags.race;
  HEDDLE_ASSIGN(options.stages, ParseStages(flags.stages));
  HEDDLE_ASSIGN(options.noises, ParseReals("--noise", flags.noise));
  if (!flags.target.empty()) {
    HEDDLE_ASSIGN(const std::vector<double> target, ParseReals("--target", flags.target));
    if (target.size() != 1) return BadInput("--target", "more than one loss", "expected one");
    options.target = target[0];
  }
  options.methods.clear();
  for (const std::string_view name : SplitAt(flags.methods, ',')) {
    HEDDLE_ASSIGN(const Method* method, FindMethod(std::string(name)));
    const bool known = std::find(options.methods.begin(), options.methods.end(), method->name) !=
                       options.methods.end();
    if (!known) options.methods.push_back(method->name);
  }
  if (options.threads == 0) {
    options.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  }
  return options;
}

// What was raced, and how it went.
struct RunRaceResult {
  RaceSubject subject;
  Race race;
};

// Where every seed has a lowest loss of its own: losses are means over the seeds, and so is this.
double MeanLowest(const Track& track, const RaceOptions& options) {
  double sum = 0;
  for (int k = 0; k < options.seeds; ++k) {
    sum += track.Of(options.first_seed + static_cast<uint64_t>(k)).lowest();
  }
  return sum / options.seeds;
}

Result<RunRaceResult> RaceHere(const Flags& flags, const RaceOptions& options) {
  HEDDLE_ASSIGN(const Track track, MakeTrack(flags, options));
  const ObjectiveOf objective_of = [&](uint64_t seed) -> const Objective& {
    return track.Of(seed);
  };
  HEDDLE_ASSIGN(Race race, RunRace(objective_of, options));
  RaceSubject subject = SubjectOf(flags.objective, track.Of(options.first_seed));
  if (flags.fresh_data) subject.lowest = MeanLowest(track, options);
  return RunRaceResult{std::move(subject), std::move(race)};
}

// The model of a plan: heddle-worker has the arithmetic. Says how many stages and microbatches it
// has.
Result<RunRaceResult> RaceOnPlan(const std::string& plan, RaceOptions& options) {
  HEDDLE_RETURN_IF_ERROR(ReadFile(plan));
  const auto takes = [&](const std::string& line) {
    const std::vector<std::string_view> words = SplitWords(line);
    if (words.size() != 3 || words[0] != "racing") return false;
    options.progress(ParseInteger(words[1]).value_or(1), ParseInteger(words[2]).value_or(1));
    return true;
  };
  HEDDLE_ASSIGN(const std::string request, WorkerRequest(RaceOptionsToJson(options)));
  HEDDLE_ASSIGN(const std::string said, OutputOfWorker({"race", plan, request, "--json"}, takes));
  HEDDLE_ASSIGN(const Json json, ParseJson(said, "heddle-worker race"));
  HEDDLE_ASSIGN(RaceReport report, RaceFromJson(JsonField(json, "heddle-worker race"), options));
  options.stages = report.stages;
  return RunRaceResult{std::move(report.subject), std::move(report.race)};
}

Status Run(const Flags& flags, const Terminal& terminal) {
  HEDDLE_RETURN_IF_ERROR(CheckPlotName(flags.plot));
  HEDDLE_RETURN_IF_ERROR(CheckWritable(flags.plot));
  HEDDLE_ASSIGN(RaceOptions options, ToOptions(flags));
  RaceProgress progress(terminal);
  options.progress = [&](int64_t done, int64_t known) { progress.Show(done, known); };
  Result<RunRaceResult> ran = OnPlan(flags)
                                  ? RaceOnPlan(flags.objective.substr(kPlanPrefix.size()), options)
                                  : RaceHere(flags, options);
  terminal.EndProgress();
  HEDDLE_ASSIGN(const RunRaceResult result, std::move(ran));
  const auto& [subject, race] = result;
  for (const std::string& warning : {FewRounds(options, race), SameSeeds(race)}) {
    if (!warning.empty()) fmt::print(terminal.err, "{}", Wrapped(warning, terminal.width));
  }
  if (!flags.plot.empty()) {
    const LineChart chart = RaceChart(subject, options, race);
    const std::string drawn = flags.plot.ends_with(".svg") ? SvgOf(chart) : HtmlOf(chart);
    HEDDLE_RETURN_IF_ERROR(WriteFile(flags.plot, drawn));
  }
  if (terminal.json) {
    terminal.PrintJson(RaceToJson(subject, options, race));
  } else {
    terminal.Print(RaceText(subject, options, race, terminal.style()));
    if (!flags.plot.empty()) terminal.Print(fmt::format("Curves drawn in {}.\n", flags.plot));
  }
  return Ok();
}

void AddRowOptions(const Command& command, Flags& flags) {
  command.AddOption("--rows", flags.problem.rows, "Linear models: samples").Check(AtLeast(1));
  command
      .AddOption("--batch", flags.problem.batch,
                 "Linear models: rows of a microbatch; all of them unless given")
      .Check(AtLeast(1));
  command.AddOption("--start", flags.start, "Linear models: where a race starts")
      .Check(OneOf({"zero", "normal"}))
      .ShowDefault();
  command.AddOption("--order", flags.order, "Of the rows: the same in every epoch, or shuffled")
      .Check(OneOf({"cyclic", "shuffled"}))
      .ShowDefault();
  command
      .AddOption("--sharpness", flags.problem.sharpness,
                 "logistic: P(y = 1) = 1/(1 + exp(-sharpness a·w)), ‖w‖ ≈ 1; 3 unless given")
      .Check(Above(0));
  command.AddFlag("--fresh-data", flags.fresh_data,
                  "Linear models: made data of its own for every seed");
}

void AddNetworkOptions(const Command& command, NetworkShape& network) {
  command.AddOption("--layers", network.layers, "lm: attentions and mlps; two stages for each")
      .ShowDefault();
  command.AddOption("--hidden", network.hidden, "lm: width, a multiple of 8").ShowDefault();
  command.AddOption("--context", network.context, "lm: characters of a sample").ShowDefault();
  command.AddOption("--samples", network.samples, "lm: samples of a microbatch").ShowDefault();
}

// Objectives and methods by name, for the help.
std::string Listing() {
  std::string text = "Objectives:\n";
  for (const Problem& problem : Problems()) {
    text += fmt::format("  {:<16}{}\n", problem.name, problem.about);
  }
  text += "  plan:FILE       the model of a plan of heddle plan, its stages as blocks\n";
  text += "\nMethods:\n";
  for (const Method& method : Methods()) {
    text += fmt::format("  {:<16}{}\n", method.name, method.about);
  }
  text += "\nSettings of --paper, each of which may be given otherwise:\n" + PaperListing();
  return text +
         "\nUnless given, lm takes --stages 2,4,8 --methods pd,local,local-plain,gpipe,2bw\n"
         "--ticks 2000 --points 20 --step-sizes 6 --refine 1; a plan has its own stages and takes\n"
         "--methods pd,rpd,local,gpipe --ticks 400, the rest as lm.\n\n";
}

}  // namespace

void AddLabRaceCommand(Commands& commands) {
  auto flags = std::make_shared<Flags>();
  flags->race.threads = 0;
  const Command command =
      commands.Add("race", "Loss against simulated time, every method at its best step size",
                   "heddle lab race --objective quadratic --stages 2..32 --methods pd,rpd,local "
                   "--plot race.svg");
  command.ExplainBeforeExample(Listing());
  command.AddOption("--objective", flags->objective, "What is minimised; see below").ShowDefault();
  command.AddOption("--data", flags->problem.data,
                    "logistic: a libsvm file with two labels; lm: a text");
  command.AddOption("--dimension", flags->problem.dimension, "Parameters, unless data say it")
      .Check(AtLeast(1));
  AddRowOptions(command, *flags);
  AddNetworkOptions(command, flags->problem.network);
  command.AddOption("--stages", flags->stages, "As in 2,4,8, or 2..32, which doubles")
      .ShowDefault();
  command.AddOption("--methods", flags->methods, "Who takes part; see below").ShowDefault();
  command.AddOption("--seeds", flags->race.seeds, "Starts and noises; 10 for a verdict")
      .ShowDefault();
  command.AddOption("--seed", flags->race.first_seed, "The first of the seeds").ShowDefault();
  command
      .AddOption("--tune-seeds", flags->race.tune_seeds,
                 "Other seeds, which step sizes are chosen on; 0: on those they are judged on")
      .ShowDefault();
  command.AddOption("--noise", flags->noise, "σ of every gradient's element, as in 0,0.05")
      .ShowDefault();
  TrialOptions& trial = flags->race.trial;
  command.AddOption("--ticks", trial.ticks, "Simulated time").ShowDefault();
  command.AddOption("--points", trial.points, "Losses taken on the way").ShowDefault();
  command.AddOption("--every", trial.every, "Local methods: steps between averages").ShowDefault();
  command
      .AddOption("--microbatches", trial.microbatches,
                 "gpipe and 2bw: microbatches of a batch; one for each stage unless given")
      .Check(AtLeast(1));
  command.AddOption("--step-sizes", flags->race.step_sizes, "Points of the grid").ShowDefault();
  command.AddOption("--refine", flags->race.refine, "Times to halve the grid around the best")
      .ShowDefault();
  command.AddFlag("--powers-of-two", flags->race.powers_of_two,
                  "Step sizes 2^k instead of a factor √2 apart from 2/L on");
  command.AddOption("--backward", flags->race.clock.backward, "Ticks of a backward").ShowDefault();
  command.AddOption("--latency", flags->race.clock.latency, "Ticks from stage to stage")
      .ShowDefault();
  command.AddOption("--average-ticks", trial.average_ticks, "Ticks of an average of replicas")
      .ShowDefault();
  command.AddOption("--threads", flags->race.threads, "0: as many as there are cores")
      .ShowDefault()
      .Check(Within(0, 256));
  command.AddOption("--target", flags->target,
                    "Also ticks until the loss comes down to this; tunes step sizes for it");
  command.AddOption("--plot", flags->plot, "Write the curves to this .svg or .html");
  command.AddOption("--paper", flags->paper, "The authors' settings; see below")
      .Check(OneOf(PaperNames()));
  commands.OnRun(command, [flags, command](const Terminal& terminal) -> Status {
    if (!flags->paper.empty()) HEDDLE_RETURN_IF_ERROR(ApplyPaper(flags->paper, command));
    flags->problem.start = flags->start == "zero" ? LinearStart::kZero : LinearStart::kNormal;
    flags->problem.order = flags->order == "shuffled" ? RowOrder::kShuffled : RowOrder::kCyclic;
    if (flags->objective == "lm" || OnPlan(*flags)) SetNetworkDefaults(command, *flags);
    return Run(*flags, terminal);
  });
}

}  // namespace heddle
