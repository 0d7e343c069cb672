#include "run/data/synthetic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "run/data/data_fixture.h"

namespace heddle {
namespace {

using testing::Each;

std::vector<Graph> Models() {
  std::vector<Graph> models;
  models.push_back(ModelOf("tiny-gpt?seq=8&vocab=50"));
  models.push_back(ModelOf("tiny-mlp?inputs=7"));
  models.push_back(ImageModel(10, 8));
  models.push_back(TokenClassifier(50, 8, 3));
  return models;
}

TEST(SyntheticTest, EndlessWithAFixedNumberHeldOut) {
  const Graph graph = ModelOf("tiny-mlp");
  const auto data = Opened("synthetic", graph);
  EXPECT_EQ(data->train_samples(), 0);
  EXPECT_EQ(data->validation_samples(), 1024);
  EXPECT_EQ(data->Describe(),
            "synthetic: x f32 [b, 32], targets i64 [b] below 10; endless, 1,024 held out");
  EXPECT_EQ(Opened("synthetic", graph, {.validation = 0})->validation_samples(), 0);
}

TEST(SyntheticTest, SeedsPartsAndPositionsDiffer) {
  for (const Graph& graph : Models()) {
    const auto one = Opened("synthetic", graph), two = Opened("synthetic", graph, {.seed = 2});
    for (const char* name : {"x", "tokens"}) {
      const auto input = graph.FindTensor(name);
      if (!input) continue;
      const auto values = one->Train(*input, 0, 16);
      EXPECT_NE(values, two->Train(*input, 0, 16));
      EXPECT_NE(values, one->Train(*input, 16, 16));
      EXPECT_NE(values, one->Validation(*input, 0, 16));
      EXPECT_EQ(values, SyntheticInput(graph, *input, 1, 0, 16));
    }
  }
}

// Any piece of the stream is the same whoever reads it with what else.
RC_GTEST_PROP(SyntheticProperty, ByPosition, ()) {
  static const std::vector<Graph> models = Models();
  const auto model = *rc::gen::inRange<size_t>(0, models.size());
  const auto first = *rc::gen::inRange<int64_t>(0, 1000000);
  const auto count = *rc::gen::inRange<int64_t>(1, 9);
  const Graph& graph = models[model];
  const auto data = MakeSyntheticData(graph, {});
  for (const char* name : {"x", "tokens", "targets"}) {
    const auto input = graph.FindTensor(name);
    if (!input) continue;
    const auto whole = data->Train(*input, first, count);
    std::vector<double> pieces;
    for (int64_t k = 0; k < count; ++k) {
      const auto piece = data->Train(*input, first + k, 1);
      pieces.insert(pieces.end(), piece.begin(), piece.end());
    }
    RC_ASSERT(whole == pieces);
  }
}

// The targets are the tokens one step on; about nine in ten steps follow one and the same rule, in
// training and held out.
TEST(SyntheticTest, TokensWalk) {
  const Graph graph = ModelOf("tiny-gpt?seq=64&vocab=97");
  const TensorId tokens = InputOf(graph, "tokens"), targets = InputOf(graph, "targets");
  const auto data = Opened("synthetic", graph);
  std::map<double, std::map<double, int>> after;
  const auto count_steps = [&](const std::vector<double>& from, const std::vector<double>& to) {
    for (size_t k = 0; k < from.size(); ++k) {
      if ((k + 1) % 64 != 0) {
        EXPECT_EQ(to[k], from[k + 1]);
      }
      EXPECT_GE(to[k], 0);
      EXPECT_LT(to[k], 97);
      ++after[from[k]][to[k]];
    }
  };
  count_steps(data->Train(tokens, 0, 500), data->Train(targets, 0, 500));
  count_steps(data->Validation(tokens, 0, 500), data->Validation(targets, 0, 500));
  EXPECT_EQ(after.size(), 97U);
  std::set<double> next;
  double ruled = 0;
  for (const auto& [token, counts] : after) {
    const auto most = std::max_element(counts.begin(), counts.end(),
                                       [](auto& a, auto& b) { return a.second < b.second; });
    next.insert(most->first);
    ruled += most->second;
  }
  EXPECT_EQ(next.size(), 97U);  // no token is left out
  EXPECT_NEAR(ruled / 64000, 0.9 + 0.1 / 97, 0.01);
}

TEST(SyntheticTest, SmallVocabularies) {
  for (const char* spec : {"tiny-gpt?seq=4&vocab=1", "tiny-gpt?seq=4&vocab=2"}) {
    const Graph graph = ModelOf(spec);
    const auto tokens = SyntheticInput(graph, InputOf(graph, "tokens"), 3, 0, 100);
    EXPECT_THAT(tokens, Each(testing::AllOf(testing::Ge(0), testing::Lt(2))));
  }
}

TEST(SyntheticTest, FeaturesAreNormal) {
  const Graph graph = ModelOf("tiny-mlp?inputs=33");
  const auto x = SyntheticInput(graph, InputOf(graph, "x"), 1, 5, 1000);
  ASSERT_EQ(x.size(), 33000U);
  double sum = 0, square = 0;
  for (const double value : x) {
    sum += value;
    square += value * value;
  }
  EXPECT_NEAR(sum / 33000, 0, 0.02);
  EXPECT_NEAR(square / 33000, 1, 0.03);
}

// Softmax regression of the class on x, by gradient descent: what a model could learn.
double LearnedAccuracy(const Graph& graph, int64_t features, int64_t classes) {
  const auto data = MakeSyntheticData(graph, {});
  const TensorId input = InputOf(graph, "x"), target = InputOf(graph, "targets");
  const auto width = static_cast<size_t>(features), height = static_cast<size_t>(classes);
  std::vector<double> weights(width * height);
  const auto scores_of = [&](const double* x) {
    std::vector<double> scores(height);
    for (size_t c = 0; c < height; ++c) {
      for (size_t k = 0; k < width; ++k) scores[c] += weights[c * width + k] * x[k];
    }
    return scores;
  };
  constexpr int64_t kSamples = 4000;
  const auto x = data->Train(input, 0, kSamples), targets = data->Train(target, 0, kSamples);
  for (size_t sample = 0; sample < kSamples; ++sample) {
    std::vector<double> chances = scores_of(&x[sample * width]);
    double sum = 0;
    for (double& chance : chances) sum += chance = std::exp(chance);
    for (size_t c = 0; c < height; ++c) {
      const double error = chances[c] / sum - (targets[sample] == static_cast<double>(c) ? 1 : 0);
      for (size_t k = 0; k < width; ++k)
        weights[c * width + k] -= 0.1 * error * x[sample * width + k];
    }
  }
  const auto unseen = data->Validation(input, 0, 1000), right = data->Validation(target, 0, 1000);
  double correct = 0;
  for (size_t sample = 0; sample < 1000; ++sample) {
    const auto scores = scores_of(&unseen[sample * width]);
    const auto best = std::max_element(scores.begin(), scores.end()) - scores.begin();
    correct += static_cast<double>(best) == right[sample] ? 1 : 0;
  }
  return correct / 1000;
}

TEST(SyntheticTest, ClassesCanBeLearnedFromFeatures) {
  EXPECT_GT(LearnedAccuracy(ModelOf("tiny-mlp?inputs=16&outputs=4"), 16, 4), 0.85);
  EXPECT_GT(LearnedAccuracy(ModelOf("tiny-mlp?inputs=2&outputs=3"), 2, 3), 0.85);
  EXPECT_GT(LearnedAccuracy(ImageModel(4, 2), 12, 4), 0.85);
}

// The class is a function of two of the tokens: equal ones there, equal class.
TEST(SyntheticTest, ClassesFollowFromTokens) {
  const Graph graph = TokenClassifier(3, 6, 4);
  const auto data = MakeSyntheticData(graph, {});
  const auto tokens = data->Train(InputOf(graph, "tokens"), 0, 2000);
  const auto targets = data->Train(InputOf(graph, "targets"), 0, 2000);
  EXPECT_GT(std::set<double>(targets.begin(), targets.end()).size(), 1U);
  EXPECT_THAT(targets, Each(testing::AllOf(testing::Ge(0), testing::Lt(4))));
  int explaining = 0;
  for (size_t a = 0; a < 6; ++a) {
    for (size_t b = a + 1; b < 6; ++b) {
      std::map<std::pair<double, double>, std::set<double>> classes;
      for (size_t sample = 0; sample < 2000; ++sample) {
        classes[{tokens[sample * 6 + a], tokens[sample * 6 + b]}].insert(targets[sample]);
      }
      const bool decided = std::all_of(classes.begin(), classes.end(),
                                       [](const auto& item) { return item.second.size() == 1; });
      explaining += decided ? 1 : 0;
    }
  }
  EXPECT_EQ(explaining, 1);
}

// A batch of photographs comes four numbers at a time; so do its samples, one by one.
TEST(SyntheticTest, ABatchOfImagesIsItsSamples) {
  constexpr int64_t kSamples = 4, kImage = 3 * 223 * 223;  // not of whole fours
  const Graph graph = ImageModel(10, 223, kSamples);
  const auto data = MakeSyntheticData(graph, {});
  const auto batch = data->Train(InputOf(graph, "x"), 0, kSamples);
  ASSERT_EQ(batch.size(), static_cast<size_t>(kSamples * kImage));
  for (int64_t k = 0; k < kSamples; ++k) {
    const auto sample = data->Train(InputOf(graph, "x"), k, 1);
    ASSERT_EQ(sample.size(), static_cast<size_t>(kImage));
    EXPECT_TRUE(std::equal(sample.begin(), sample.end(), batch.begin() + k * kImage)) << k;
  }
}

}  // namespace
}  // namespace heddle
