#include "run/data/data_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "run/data/data_fixture.h"
#include "run/data/model_inputs.h"

namespace heddle {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(OpenDataTest, SpecsThatAreNone) {
  const Graph graph = ModelOf("tiny-gpt");
  EXPECT_THAT(Refusal("txt:foo", graph),
              AllOf(HasSubstr("data \"txt:foo\""), HasSubstr("did you mean \"text\""),
                    HasSubstr("known: synthetic, text, libsvm, cifar, cifar100")));
  EXPECT_THAT(Refusal("", graph), HasSubstr("no such source"));
  EXPECT_THAT(Refusal("text", graph), AllOf(HasSubstr("no file"), HasSubstr("text:PATH")));
  EXPECT_THAT(Refusal("text:", graph), AllOf(HasSubstr("no file"), HasSubstr("text:PATH")));
  EXPECT_THAT(Refusal("synthetic:foo", graph), HasSubstr("write synthetic alone"));
}

TEST(OpenDataTest, FilesThatAreNone) {
  const Graph graph = ModelOf("tiny-gpt");
  const TemporaryFile empty("");
  const std::string folder = std::filesystem::temp_directory_path();
  for (const std::string kind : {"text", "libsvm", "cifar", "cifar100"}) {
    EXPECT_THAT(Refusal(kind + ":/nonexistent/file", graph),
                AllOf(HasSubstr(kind + ":/nonexistent/file"), HasSubstr("No such file"),
                      HasSubstr("check the path")));
    EXPECT_THAT(Refusal(kind + ":" + folder, graph),
                AllOf(HasSubstr(kind + ":" + folder), HasSubstr("Is a directory"),
                      HasSubstr("expected a file")));
    EXPECT_THAT(Refusal(kind + ":" + empty.path(), graph),
                AllOf(HasSubstr(kind + ":" + empty.path()), HasSubstr("is empty")));
  }
}

TEST(OpenDataTest, FractionsThatAreNone) {
  const Graph graph = ModelOf("tiny-gpt");
  for (const double fraction : {-0.1, 1.0, 2.0, std::nan("")}) {
    EXPECT_THAT(Refusal("synthetic", graph, {.validation = fraction}),
                AllOf(HasSubstr("hold out"), HasSubstr("below 1")));
  }
}

TEST(HeldOutTest, NearestButNeverAll) {
  EXPECT_EQ(HeldOut(100, {.validation = 0.1}), 10);
  EXPECT_EQ(HeldOut(100, {.validation = 0}), 0);
  EXPECT_EQ(HeldOut(100, {.validation = 0.999}), 99);
  EXPECT_EQ(HeldOut(3, {.validation = 0.01}), 1);
  EXPECT_EQ(HeldOut(1, {.validation = 0.5}), 0);
  EXPECT_EQ(HeldOut(6513, {.validation = 0.1}), 651);
}

TEST(ModelInputsTest, WhatModelsRead) {
  const Graph gpt = ModelOf("tiny-gpt?vocab=300");
  EXPECT_EQ(InputsOf(gpt).size(), 2U);
  EXPECT_EQ(IndexBound(gpt, InputOf(gpt, "tokens")), 300);
  EXPECT_EQ(IndexBound(gpt, InputOf(gpt, "targets")), 300);
  EXPECT_EQ(SampleElements(gpt, InputOf(gpt, "tokens")), 64);
  const Graph mlp = ModelOf("tiny-mlp");
  EXPECT_EQ(IndexBound(mlp, InputOf(mlp, "x")), 0);
  EXPECT_EQ(DescribeInputs(mlp), "x f32 [b, 32], targets i64 [b] below 10");
  EXPECT_TRUE(OnlyInputs(mlp, "x", "targets").has_value());
  EXPECT_FALSE(OnlyInputs(mlp, "tokens", "targets").has_value());
}

}  // namespace
}  // namespace heddle
