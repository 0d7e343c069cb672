#include "run/data/libsvm_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>

#include "run/data/data_fixture.h"

namespace heddle {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const char kSmall[] = "tiny-mlp?inputs=3&outputs=2";

std::string ParseRefusal(const std::string& text) {
  const auto rows = ParseLibsvm(text, "f");
  EXPECT_FALSE(rows.ok()) << text;
  return rows.ok() ? "" : rows.error().ToString();
}

TEST(LibsvmTest, RowsWithCommentsEmptyLinesAndCarriageReturns) {
  const auto rows = ParseLibsvm("# a file\n+1 3:1 1:-.5 # why\r\n\r\n\n-1\n1e0 2:1e3", "f");
  ASSERT_TRUE(rows.ok()) << rows.error().ToString();
  EXPECT_THAT(rows.value().labels, ElementsAre(1, -1, 1));
  EXPECT_THAT(rows.value().lines, ElementsAre(2, 5, 6));
  EXPECT_THAT(rows.value().begins, ElementsAre(0, 2, 2, 3));
  EXPECT_THAT(rows.value().index, ElementsAre(3, 1, 2));
  EXPECT_THAT(rows.value().value, ElementsAre(1, -0.5, 1000));
  EXPECT_EQ(rows.value().least_index, 1);
  EXPECT_EQ(ParseLibsvm("1 0:1", "f").value().least_index, 0);
}

TEST(LibsvmTest, WhatIsNotAFile) {
  EXPECT_THAT(ParseRefusal("1 1:1\nmushroom 2:1"),
              AllOf(HasSubstr("f: line 2"), HasSubstr("label \"mushroom\" is not a number"),
                    HasSubstr("label index:value")));
  for (const char* word : {"qid:3", "3", "3:", ":1", "3:x", "3:nan", "3:1e999", "3:1:2", "1.5:1"}) {
    EXPECT_THAT(ParseRefusal(std::string("1 ") + word),
                AllOf(HasSubstr("f: line 1"), HasSubstr("\"" + std::string(word) + "\" is not a"),
                      HasSubstr("3:0.5")));
  }
  EXPECT_THAT(ParseRefusal("1 -1:2"), AllOf(HasSubstr("-1 is negative"), HasSubstr("from 1")));
  EXPECT_THAT(ParseRefusal("1 2:2 1:1 2:3"), HasSubstr("feature 2 is given twice"));
  EXPECT_THAT(ParseRefusal("\n# nothing\n"), HasSubstr("no samples"));
  EXPECT_LT(ParseRefusal(std::string(100000, 'x')).size(), 300U);
}

TEST(LibsvmDataTest, FeaturesAndClassesOfEachSampleStayTogether) {
  const TemporaryFile file("-1 1:1\n1 1:2 3:5\n-1 1:3\n1 1:4 2:-1\n");
  const Graph graph = ModelOf(kSmall);
  const auto data = Opened("libsvm:" + file.path(), graph, {.validation = 0.25});
  ASSERT_NE(data, nullptr);
  EXPECT_EQ(data->train_samples(), 3);
  EXPECT_EQ(data->validation_samples(), 1);
  const std::map<double, std::vector<double>> whole = {
      {1, {1, 0, 0, 0}}, {2, {2, 0, 5, 1}}, {3, {3, 0, 0, 0}}, {4, {4, -1, 0, 1}}};
  std::set<double> seen;
  const auto expect_sample = [&](std::vector<double> x, const std::vector<double>& targets) {
    x.push_back(targets.at(0));
    EXPECT_EQ(x, whole.at(x[0]));
    seen.insert(x[0]);
  };
  const TensorId x = InputOf(graph, "x"), targets = InputOf(graph, "targets");
  for (int64_t p = 0; p < 3; ++p) expect_sample(data->Train(x, p, 1), data->Train(targets, p, 1));
  EXPECT_EQ(seen.size(), 3U);
  expect_sample(data->Validation(x, 0, 1), data->Validation(targets, 0, 1));
  EXPECT_EQ(seen.size(), 4U);
}

TEST(LibsvmDataTest, LabelsBecomeClassesInAscendingOrder) {
  const Graph graph = ModelOf("tiny-mlp?inputs=1&outputs=3");
  for (const char* text :
       {"7 1:2\n-3 1:0\n2.5 1:1\n", "2 1:2\n0 1:0\n1 1:1\n", "30 0:2\n+1 0:0\n2 0:1"}) {
    const TemporaryFile file(text);
    const auto data = Opened("libsvm:" + file.path(), graph, {.validation = 0});
    ASSERT_NE(data, nullptr);
    EXPECT_EQ(data->Train(InputOf(graph, "x"), 0, 9), data->Train(InputOf(graph, "targets"), 0, 9));
  }
}

TEST(LibsvmDataTest, TheSplitDependsOnTheSeedAlone) {
  std::string text;
  for (int k = 0; k < 100; ++k) text += std::to_string(k % 2) + " 1:" + std::to_string(k) + "\n";
  const TemporaryFile file(text);
  const Graph graph = ModelOf("tiny-mlp?inputs=1&outputs=2");
  const TensorId x = InputOf(graph, "x");
  std::vector<std::vector<double>> held_out;
  for (const uint64_t seed : {1, 1, 2}) {
    const auto data = Opened("libsvm:" + file.path(), graph, {.seed = seed, .validation = 0.2});
    ASSERT_NE(data, nullptr);
    held_out.push_back(data->Validation(x, 0, 20));
    // Together the parts are the whole, in this epoch and in a later one.
    for (const int64_t epoch : {0, 3}) {
      std::vector<double> all = data->Train(x, epoch * 80, 80);
      all.insert(all.end(), held_out.back().begin(), held_out.back().end());
      EXPECT_EQ(std::set<double>(all.begin(), all.end()).size(), 100U);
    }
    EXPECT_NE(data->Train(x, 0, 80), data->Train(x, 80, 80));
  }
  EXPECT_EQ(held_out[0], held_out[1]);
  EXPECT_NE(held_out[0], held_out[2]);
}

TEST(LibsvmDataTest, IndicesBeyondTheModel) {
  const TemporaryFile from_one("0 1:1\n1 3:1\n"), from_zero("0 0:1\n1 3:1\n"),
      far("0 1:1\n1 9:1\n");
  EXPECT_NE(Opened("libsvm:" + from_one.path(), ModelOf(kSmall)), nullptr);
  EXPECT_THAT(Refusal("libsvm:" + from_zero.path(), ModelOf(kSmall)),
              AllOf(HasSubstr("start at 0"), HasSubstr("inputs=4")));
  EXPECT_THAT(
      Refusal("libsvm:" + far.path(), ModelOf(kSmall)),
      AllOf(HasSubstr("libsvm:" + far.path() + ": line 2"),
            HasSubstr("feature 9 is beyond the model's 3 inputs"), HasSubstr("mlp?inputs=9")));
  const TemporaryFile huge("0 0:1\n1 9223372036854775807:1\n");
  EXPECT_THAT(Refusal("libsvm:" + huge.path(), ModelOf(kSmall)), HasSubstr("beyond"));
}

TEST(LibsvmDataTest, MoreLabelsThanClasses) {
  const TemporaryFile file("0.5 1:1\n1.5 1:1\n2.5 1:1\n");
  EXPECT_THAT(Refusal("libsvm:" + file.path(), ModelOf(kSmall)),
              AllOf(HasSubstr("3 different labels, from 0.5 to 2.5"), HasSubstr("has 2 classes"),
                    HasSubstr("mlp?outputs=3"), HasSubstr("regression")));
}

TEST(LibsvmDataTest, ModelsWithOtherInputs) {
  const TemporaryFile file("0 1:1\n1 2:1\n");
  EXPECT_THAT(Refusal("libsvm:" + file.path(), ModelOf("tiny-gpt")),
              AllOf(HasSubstr("wants tokens i64 [b, 64] below 256, targets i64 [b, 64] below 256"),
                    HasSubstr("gives x [b, k]"), HasSubstr("mlp?inputs=")));
  EXPECT_THAT(Refusal("libsvm:" + file.path(), ImageModel(10)), HasSubstr("x f32 [b, 3, 32, 32]"));
}

struct Rows {
  std::string path;
  int64_t features, train;
  double properties, positive;  // ones of each row; the share of class 1
  std::string says;
};

// Rows of ours, and those of others where they are: each has one value of each of its properties.
TEST(LibsvmDataTest, FruitAndMushrooms) {
  const Rows all[] = {
      {OwnData("orchard.libsvm"), 19, 54, 6, 0.463,
       "60 samples of 19 features in 2 classes: 54 to train on, 6 held out"},
      {SharedData("agaricus/agaricus.txt.train"), 126, 5862, 22, 0.482,
       "6,513 samples of 126 features in 2 classes: 5,862 to train on, 651 held out"}};
  for (const Rows& rows : all) {
    if (!std::filesystem::exists(rows.path)) continue;
    const Graph graph =
        ModelOf("mlp?inputs=" + std::to_string(rows.features) + "&outputs=2&layers=2&hidden=8", 16);
    const auto data = Opened("libsvm:" + rows.path, graph);
    ASSERT_NE(data, nullptr);
    EXPECT_THAT(data->Describe(), HasSubstr(rows.says));
    const auto x = data->Train(InputOf(graph, "x"), rows.train - 20, 2000);  // into the next epoch
    const auto features = static_cast<size_t>(rows.features);
    for (size_t sample = 0; sample < 2000; ++sample) {
      double ones = 0;
      for (size_t k = 0; k < features; ++k) ones += x[sample * features + k];
      EXPECT_EQ(ones, rows.properties);
    }
    double positive = 0;
    for (const double target : data->Train(InputOf(graph, "targets"), 0, rows.train)) {
      positive += target;
    }
    EXPECT_NEAR(positive / static_cast<double>(rows.train), rows.positive, 0.01);
  }
}

// Rows written out as text are read back as they were.
RC_GTEST_PROP(LibsvmProperty, ReadsWhatWasWritten, ()) {
  using Pairs = std::vector<std::pair<int64_t, int>>;
  const auto pairs =
      *rc::gen::nonEmpty(rc::gen::container<std::vector<Pairs>>(rc::gen::container<Pairs>(
          rc::gen::pair(rc::gen::inRange<int64_t>(1, 500), rc::gen::inRange(-9, 9)))));
  std::vector<std::map<int64_t, int>> entries;
  for (const Pairs& row : pairs) entries.emplace_back(row.begin(), row.end());
  std::string text;
  for (const auto& row : entries) {
    text += "1";
    for (const auto& [index, value] : row) {
      text += " " + std::to_string(index) + ":" + std::to_string(value);
    }
    text += "\n";
  }
  const auto rows = ParseLibsvm(text, "f");
  RC_ASSERT(rows.ok());
  RC_ASSERT(rows.value().rows() == entries.size());
  for (size_t r = 0; r < entries.size(); ++r) {
    std::map<int64_t, int> row;
    for (size_t k = rows.value().begins[r]; k < rows.value().begins[r + 1]; ++k) {
      row[rows.value().index[k]] = static_cast<int>(rows.value().value[k]);
    }
    RC_ASSERT(row == entries[r]);
  }
}

}  // namespace
}  // namespace heddle
