#include "run/data/cifar_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "run/data/data_fixture.h"

namespace heddle {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Red, green and blue differ, and so do records.
std::string Record(const std::string& labels, int shade) {
  std::string record = labels;
  for (int plane = 0; plane < 3; ++plane)
    record += std::string(1024, static_cast<char>(shade + plane));
  return record;
}

std::string Label(int label) { return std::string(1, static_cast<char>(label)); }

double Scaled(int colour) { return (colour / 255.0 - 0.5) / 0.25; }

TEST(CifarDataTest, ImagesOfSeveralFiles) {
  const TemporaryFile one(Record(Label(3), 0) + Record(Label(9), 100)), two(Record(Label(0), 253));
  const std::string spec = "cifar:" + one.path() + "," + two.path();
  for (const Graph& graph : {ImageModel(10), ModelOf("tiny-mlp?inputs=3072")}) {
    const auto data = Opened(spec, graph, {.validation = 0});
    ASSERT_NE(data, nullptr);
    EXPECT_EQ(data->train_samples(), 3);
    EXPECT_EQ(data->validation_samples(), 0);
    const auto targets = data->Train(InputOf(graph, "targets"), 0, 3);
    const auto x = data->Train(InputOf(graph, "x"), 0, 3);
    ASSERT_EQ(x.size(), 3 * 3072U);
    const std::map<int, int> shades = {{3, 0}, {9, 100}, {0, 253}};
    std::set<double> seen(targets.begin(), targets.end());
    EXPECT_EQ(seen, (std::set<double>{0, 3, 9}));
    for (size_t k = 0; k < 3; ++k) {
      const int shade = shades.at(static_cast<int>(targets[k]));
      EXPECT_DOUBLE_EQ(x[k * 3072], Scaled(shade));
      EXPECT_DOUBLE_EQ(x[k * 3072 + 1023], Scaled(shade));
      EXPECT_DOUBLE_EQ(x[k * 3072 + 1024], Scaled(shade + 1));
      EXPECT_DOUBLE_EQ(x[k * 3072 + 3071], Scaled(shade + 2));
    }
  }
  EXPECT_DOUBLE_EQ(Scaled(0), -2);
  EXPECT_DOUBLE_EQ(Scaled(255), 2);
}

TEST(CifarDataTest, FineLabelsOfAHundred) {
  const TemporaryFile file(Record(Label(19) + Label(99), 1));
  const Graph graph = ImageModel(100);
  const auto data = Opened("cifar100:" + file.path(), graph);
  ASSERT_NE(data, nullptr);
  EXPECT_EQ(data->Train(InputOf(graph, "targets"), 0, 1), std::vector<double>{99});
  EXPECT_DOUBLE_EQ(data->Train(InputOf(graph, "x"), 0, 1)[0], Scaled(1));
}

TEST(CifarDataTest, SplitIsDisjoint) {
  std::string bytes;
  for (int k = 0; k < 50; ++k) bytes += Record(Label(k % 10), k);
  const TemporaryFile file(bytes);
  const Graph graph = ImageModel(10);
  const auto data = Opened("cifar:" + file.path(), graph, {.validation = 0.2});
  ASSERT_NE(data, nullptr);
  const TensorId x = InputOf(graph, "x");
  std::set<double> seen;
  for (int64_t p = 0; p < 40; ++p) seen.insert(data->Train(x, p, 1)[0]);
  for (int64_t k = 0; k < 10; ++k) seen.insert(data->Validation(x, k, 1)[0]);
  EXPECT_EQ(seen.size(), 50U);
}

TEST(CifarDataTest, FilesThatAreSomethingElse) {
  const TemporaryFile good(Record(Label(0), 0)), odd(Record(Label(0), 0) + "x"),
      label(Record(Label(0), 0) + Record(Label(10), 0));
  const Graph graph = ImageModel(10);
  EXPECT_THAT(Refusal("cifar:" + good.path() + "," + odd.path(), graph),
              AllOf(HasSubstr(odd.path() + ": 3,074 bytes"), HasSubstr("records of 3073 bytes"),
                    HasSubstr("cifar100:")));
  EXPECT_THAT(Refusal("cifar:" + label.path(), graph),
              AllOf(HasSubstr("record 1"), HasSubstr("label 10 is out of range"),
                    HasSubstr("labels 0 to 9")));
  EXPECT_THAT(Refusal("cifar100:" + good.path(), ImageModel(100)),
              HasSubstr("CIFAR-100 records of 3074 bytes"));
  EXPECT_THAT(Refusal("cifar:" + good.path() + ",", graph), HasSubstr("name is empty"));
  EXPECT_THAT(Refusal("cifar:" + good.path() + ",/nonexistent", graph),
              AllOf(HasSubstr("/nonexistent"), HasSubstr("No such file")));
}

TEST(CifarDataTest, ModelsWithOtherInputs) {
  const TemporaryFile file(Record(Label(0), 0));
  const std::string spec = "cifar:" + file.path();
  EXPECT_THAT(Refusal(spec, ImageModel(10, 16)), AllOf(HasSubstr("wants x f32 [b, 3, 16, 16]"),
                                                       HasSubstr("[b, 3, 32, 32] or [b, 3072]"),
                                                       HasSubstr("mlp?inputs=3072&outputs=10")));
  EXPECT_THAT(Refusal(spec, ModelOf("tiny-gpt")), HasSubstr("wants tokens"));
  EXPECT_THAT(Refusal(spec, ImageModel(5)),
              AllOf(HasSubstr("CIFAR-10 has 10 classes, the model 5"), HasSubstr("outputs=10")));
  EXPECT_NE(Opened(spec, ModelOf("mlp?inputs=3072&outputs=10")), nullptr);
}

}  // namespace
}  // namespace heddle
