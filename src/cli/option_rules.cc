#include "cli/option_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "program/plan/request_fields.h"

namespace heddle {
namespace {

// Where an option means something: alternatives with | between them. Each is a list of
//   --run            the option is given
//   no --json        it is not
//   --goal a,b       its value, given or not, is one of these; of a list, any element is
//   --methods !a,b   its value, or any element of it, is none of these
struct OptionRule {
  std::string_view command;
  std::string_view option;
  std::string_view goes_with;
};

constexpr std::string_view kAveraging = "--methods local,local-plain,diloco";

constexpr std::string_view kRows =
    "--objective logistic,least-squares,chain-rows | --paper logistic,quadratic";
constexpr std::string_view kMadeRows =
    "--objective logistic,least-squares,chain-rows no --data | --paper logistic,quadratic";
constexpr std::string_view kNetwork = "--objective lm | --paper lm";

constexpr OptionRule kRules[] = {
    {"explain", "--all", "no --json"},
    {"simulate", "--network", "no --json"},
    {"simulate", "--rows", "no --json"},
    {"demo", "--only-plan", "no --json"},
    {"lab race", "--data", "--objective logistic,lm"},
    {"lab race", "--dimension",
     "--objective quadratic,quadratic-load,least-squares,logistic,chain-rows no --data"},
    {"lab race", "--stages",
     "--objective quadratic,quadratic-load,least-squares,logistic,chain-rows,lm"},
    {"lab race", "--rows", kMadeRows},
    {"lab race", "--batch", kRows},
    {"lab race", "--start", kRows},
    {"lab race", "--order",
     "--batch --objective logistic,least-squares,chain-rows | --paper logistic,quadratic"},
    {"lab race", "--sharpness", "--objective logistic no --data | --paper logistic"},
    {"lab race", "--fresh-data", kMadeRows},
    {"lab race", "--layers", kNetwork},
    {"lab race", "--hidden", kNetwork},
    {"lab race", "--context", kNetwork},
    {"lab race", "--samples", kNetwork},
    {"lab race", "--every", kAveraging},
    {"lab race", "--average-ticks", kAveraging},
    {"lab race", "--microbatches", "--methods gpipe,gpipe-4,2bw | --paper quadratic"},
    {"lab race", "--latency", "--methods !local-plain"},
    {"share", "--baselines", "no --run no --attach no --trace"},
    {"share", "--devices", "--trace"},
    {"share", "--run", "no --trace"},
    {"share", "--emulate", "--run"},
    {"share", "--shaped", "--run no --emulate"},
    {"share", "--dilate", "--run --emulate | --run --shaped"},
    {"share", "--silent-after", "--run"},
    {"share", "--no-serial", "--run"},
    {"share", "--together", "--run"},
    {"share", "--one-group", "--run"},
    {"share", "--order", "--run no --together"},
    {"share", "--dtype", "--run | --attach"},
    {"share", "--dir", "--run | --attach"},
    {"share", "--attach", "--dir no --run no --trace"},
};

struct Term {
  std::string option;
  bool must_be_absent = false;
  bool values_are_excluded = false;
  std::vector<std::string> values;  // none: whether it is given is what counts

  std::string Text() const {
    if (must_be_absent) return "without " + option;
    if (values.empty()) return option;
    return option + (values_are_excluded ? " other than " : " ") + Join(values, " or ");
  }
};

using Alternative = std::vector<Term>;

std::vector<std::string> Strings(const std::vector<std::string_view>& views) {
  return {views.begin(), views.end()};
}

Alternative ParseAlternative(std::string_view text) {
  Alternative terms;
  bool absent = false;
  for (std::string_view word : SplitWords(text)) {
    if (word == "no") {
      absent = true;
    } else if (word.starts_with("--")) {
      terms.push_back({std::string(word), absent, false, {}});
      absent = false;
    } else {
      terms.back().values_are_excluded = word.starts_with('!');
      if (terms.back().values_are_excluded) word.remove_prefix(1);
      terms.back().values = Strings(SplitAt(word, ','));
    }
  }
  return terms;
}

bool Holds(const Term& term, const Command& command) {
  const std::optional<Option> option = command.FindUpwards(term.option);
  if (!option) return term.must_be_absent;
  if (term.must_be_absent) return !option->given();
  if (term.values.empty()) return option->given();
  const std::string value = option->value();
  const std::vector<std::string_view> elements = SplitAt(value, ',');
  return std::any_of(elements.begin(), elements.end(), [&](std::string_view element) {
    const bool listed =
        std::find(term.values.begin(), term.values.end(), element) != term.values.end();
    return listed != term.values_are_excluded;
  });
}

// "with --strategy 1f1b", "without --emulate", "beside --json".
std::string Obstacle(const Term& term, const Command& command) {
  if (term.must_be_absent) return "beside " + term.option;
  if (term.values.empty()) return "without " + term.option;
  const std::optional<Option> option = command.FindUpwards(term.option);
  return fmt::format("with {} {}", term.option, !option ? "" : option->value());
}

// A value that is nearly one of those wanted is rather a typo than another choice.
std::string LikelyTypo(const Term& term, const Command& command) {
  const std::optional<Option> option = command.FindUpwards(term.option);
  if (!option || term.values.empty() || term.values_are_excluded) return "";
  const auto nearest = NearestName(option->value(), term.values);
  return nearest ? fmt::format("did you mean {} {}? ", term.option, *nearest) : "";
}

std::string Remedy(const std::vector<Alternative>& alternatives) {
  std::string text;
  for (const Alternative& terms : alternatives) {
    std::vector<std::string> parts;
    for (const Term& term : terms) parts.push_back(term.Text());
    const bool absent = terms.front().must_be_absent;
    text += (text.empty() ? "it goes " : ", or ") + std::string(absent ? "" : "with ") +
            Join(parts, " ");
  }
  return text + "; or leave it out";
}

Status CheckRule(const OptionRule& rule, const Command& command) {
  const std::optional<Option> option = command.Find(std::string(rule.option));
  if (!option || !option->given()) return Ok();
  std::vector<Alternative> alternatives;
  for (const std::string_view text : SplitAt(rule.goes_with, '|')) {
    alternatives.push_back(ParseAlternative(text));
  }
  const Term* broken = nullptr;
  for (const Alternative& terms : alternatives) {
    const auto failing = std::find_if(terms.begin(), terms.end(),
                                      [&](const Term& term) { return !Holds(term, command); });
    if (failing == terms.end()) return Ok();
    if (broken == nullptr) broken = &*failing;
  }
  return Usage(fmt::format("{} has no effect {}", rule.option, Obstacle(*broken, command)),
               LikelyTypo(*broken, command) + Remedy(alternatives));
}

// Those of the fields that not every strategy reads.
Status CheckRequestRules(const std::string& path, const Command& command) {
  if (path != "plan" && path != "compare") return Ok();
  for (const RequestField& field : RequestFields()) {
    std::string goes_with(field.goes_with);
    if (path == "compare" && !field.of_strategy.empty()) {
      goes_with = fmt::format("no --strategies | --strategies {}", field.of_strategy);
    }
    if (goes_with.empty()) continue;
    const std::string option = field.option();
    HEDDLE_RETURN_IF_ERROR(CheckRule({path, option, goes_with}, command));
  }
  return Ok();
}

}  // namespace

Status CheckOptionRules(const Command& command) {
  const std::string path = command.path();
  for (const OptionRule& rule : kRules) {
    if (rule.command == path) HEDDLE_RETURN_IF_ERROR(CheckRule(rule, command));
  }
  return CheckRequestRules(path, command);
}

}  // namespace heddle
