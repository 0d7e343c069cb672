// docs/request.md lists the fields of a request as the table of request_fields.h has them.
// HEDDLE_UPDATE_GOLDEN=1 rewrites the list.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "program/plan/request_fields.h"
#include "support/places.h"

namespace heddle {
namespace {

constexpr char kBegin[] = "<!-- fields -->\n", kEnd[] = "<!-- end of fields -->\n";

std::string TakenBy(const RequestField& field) {
  std::string text;
  for (const auto& [source, name] : {std::pair{RequestSource::kPlan, "plan"},
                                     {RequestSource::kCompare, "compare"},
                                     {RequestSource::kJob, "jobs"}}) {
    if (field.taken_by(source)) text += (text.empty() ? "" : ", ") + std::string(name);
  }
  return text;
}

std::string Row(const RequestField& field) {
  std::string option = fmt::format("`{}`", field.option());
  if (!field.aliases.empty()) option += fmt::format(", `{}`", field.aliases);
  const std::string usual = field.default_text();
  return fmt::format(
      "| `{}` | {} | {} | {} | {}{} |\n", field.key, option,
      usual.empty() ? "" : fmt::format("`{}`", usual), TakenBy(field), field.about_with_choices(),
      field.of_strategy.empty() ? "" : fmt::format(" (strategy `{}`)", field.of_strategy));
}

std::string Table() {
  std::string text =
      "| field | option | usual | taken by | what it asks |\n| --- | --- | --- | --- | --- |\n";
  for (const RequestField& field : RequestFields()) text += Row(field);
  return text;
}

TEST(RequestPageTest, ListsTheFieldsAsTheyAre) {
  const std::string path = SourceDir() + "/docs/request.md";
  const std::string page = ReadFile(path).value();
  const size_t begin = page.find(kBegin), end = page.find(kEnd);
  ASSERT_TRUE(begin != std::string::npos && end != std::string::npos && begin < end);
  const std::string made = page.substr(0, begin + sizeof(kBegin) - 1) + Table() + page.substr(end);
  if (std::getenv("HEDDLE_UPDATE_GOLDEN") != nullptr) {
    ASSERT_TRUE(WriteFile(path, made).ok());
    return;
  }
  EXPECT_EQ(page, made) << "HEDDLE_UPDATE_GOLDEN=1 rewrites the list";
}

}  // namespace
}  // namespace heddle
