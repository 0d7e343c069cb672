#include "run/data/text_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "run/data/data_fixture.h"
#include "run/data/permutation.h"

namespace heddle {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string AsText(const std::vector<double>& tokens) {
  std::string text;
  for (const double token : tokens) text += static_cast<char>(token);
  return text;
}

const char kSmall[] = "tiny-gpt?layers=1&seq=4";

TEST(TextDataTest, WindowsStartAtMultiplesOfTheSequence) {
  const TemporaryFile file("The quick brown fox");
  const Graph graph = ModelOf(kSmall);
  const TensorId tokens = InputOf(graph, "tokens"), targets = InputOf(graph, "targets");
  const auto data = Opened("text:" + file.path(), graph, {.validation = 0.5});
  ASSERT_NE(data, nullptr);
  // Four windows of 4 + 1; the last two characters are left over. The second half is held out.
  EXPECT_EQ(data->train_samples(), 2);
  EXPECT_EQ(data->validation_samples(), 2);
  EXPECT_EQ(AsText(data->Validation(tokens, 0, 2)), "k brown ");
  EXPECT_EQ(AsText(data->Validation(targets, 0, 2)), " brown f");
  EXPECT_EQ(AsText(data->Validation(targets, 1, 1)), "wn f");
  const std::set<std::string> epoch = {AsText(data->Train(tokens, 0, 1)),
                                       AsText(data->Train(tokens, 1, 1))};
  EXPECT_EQ(epoch, (std::set<std::string>{"The ", "quic"}));
}

TEST(TextDataTest, OneWindowIsTrainedOnOverAndOver) {
  const TemporaryFile file("abcde");
  const Graph graph = ModelOf(kSmall);
  const auto data = Opened("text:" + file.path(), graph);
  ASSERT_NE(data, nullptr);
  EXPECT_EQ(data->train_samples(), 1);
  EXPECT_EQ(data->validation_samples(), 0);
  EXPECT_EQ(AsText(data->Train(InputOf(graph, "tokens"), 7, 2)), "abcdabcd");
  EXPECT_EQ(AsText(data->Train(InputOf(graph, "targets"), 7, 2)), "bcdebcde");
}

TEST(TextDataTest, BytesAreUnsigned) {
  const TemporaryFile file("\xff\x80\xc3\xa4z");
  const Graph graph = ModelOf(kSmall);
  const auto data = Opened("text:" + file.path(), graph);
  ASSERT_NE(data, nullptr);
  EXPECT_EQ(data->Train(InputOf(graph, "tokens"), 0, 1), (std::vector<double>{255, 128, 195, 164}));
}

TEST(TextDataTest, FewerTokensSufficeForTextsThatUseFewer) {
  const TemporaryFile plain("plain ascii text"), umlaut("one\ntwo\nthr\xc3\xa4");
  const Graph graph = ModelOf("tiny-gpt?layers=1&seq=4&vocab=128");
  EXPECT_NE(Opened("text:" + plain.path(), graph), nullptr);
  EXPECT_THAT(Refusal("text:" + umlaut.path(), graph),
              AllOf(HasSubstr("text:" + umlaut.path() + ": line 3"), HasSubstr("byte 195"),
                    HasSubstr("below 128"), HasSubstr("vocab=256")));
}

TEST(TextDataTest, TooShort) {
  const TemporaryFile file("abcd");
  EXPECT_THAT(Refusal("text:" + file.path(), ModelOf(kSmall)),
              AllOf(HasSubstr("4 bytes"), HasSubstr("one window of 5"), HasSubstr("seq=3")));
}

TEST(TextDataTest, ModelsWithOtherInputs) {
  const TemporaryFile file("a text that is long enough");
  const std::string spec = "text:" + file.path();
  EXPECT_THAT(
      Refusal(spec, ModelOf("tiny-mlp")),
      AllOf(HasSubstr(spec), HasSubstr("the model wants x f32 [b, 32], targets i64 [b] below 10"),
            HasSubstr("gives tokens i64 [b, s] and targets i64 [b, s]"), HasSubstr("tiny-gpt")));
  EXPECT_THAT(Refusal(spec, TokenClassifier(256, 4, 2)), HasSubstr("targets i64 [b] below 2"));
  // The remedy is one.
  const TemporaryFile longer(std::string(2000, 'x'));
  EXPECT_NE(Opened("text:" + longer.path(), ModelOf("tiny-gpt")), nullptr);
  EXPECT_NE(Opened("text:" + longer.path(), ModelOf("gpt?layers=1&vocab=256")), nullptr);
}

TEST(TextDataTest, DescribesItself) {
  const TemporaryFile file(std::string(5001, 'x'));
  EXPECT_EQ(Opened("text:" + file.path(), ModelOf(kSmall))->Describe(),
            "text:" + file.path() + ": 5,001 bytes, windows of 4: 1,125 to train on, 125 held out");
}

// A stream read in any pieces is the same, each epoch reads each window of the training part once,
// and no window of the end.
RC_GTEST_PROP(TextDataProperty, StreamsByPosition, ()) {
  const auto contents = *rc::gen::container<std::string>(rc::gen::inRange<char>(32, 126));
  const auto length = *rc::gen::inRange<int64_t>(1, 6);
  RC_PRE(std::ssize(contents) > length);
  DataOptions options;
  options.seed = *rc::gen::inRange<uint64_t>(0, 100);
  options.validation = *rc::gen::element(0.0, 0.1, 0.5, 0.9);
  const Graph graph = ModelOf("tiny-gpt?layers=1&hidden=4&heads=1&seq=" + std::to_string(length));
  const auto made = MakeTextData(contents, "text", graph, options);
  RC_ASSERT(made.ok());
  const DataSource& data = *made.value();
  const TensorId tokens = InputOf(graph, "tokens"), targets = InputOf(graph, "targets");
  const int64_t windows = (std::ssize(contents) - 1) / length;
  RC_ASSERT(data.train_samples() + data.validation_samples() == windows);
  RC_ASSERT(data.train_samples() >= 1);
  const auto epoch = AsText(data.Train(tokens, data.train_samples(), data.train_samples()));
  std::multiset<std::string> got, expected;
  for (int64_t k = 0; k < data.train_samples(); ++k) {
    const auto at = static_cast<size_t>(k * length), size = static_cast<size_t>(length);
    got.insert(epoch.substr(at, size));
    expected.insert(contents.substr(at, size));
    const auto alone = AsText(data.Train(tokens, data.train_samples() + k, 1));
    RC_ASSERT(alone == epoch.substr(at, size));
    const auto target = AsText(data.Train(targets, data.train_samples() + k, 1));
    RC_ASSERT(target.substr(0, size - 1) == alone.substr(1));
  }
  RC_ASSERT(got == expected);
  const auto tail = AsText(data.Validation(tokens, 0, data.validation_samples()));
  RC_ASSERT(tail == contents.substr(static_cast<size_t>(data.train_samples() * length),
                                    static_cast<size_t>(data.validation_samples() * length)));
}

struct Text {
  std::string path;
  int64_t windows;
  std::string says;
};

// A text of ours, and a long one of others where it is there.
TEST(TextDataTest, WindowsOfAText) {
  const Text texts[] = {
      {OwnData("loom.txt"), 15, "1,144 bytes, windows of 64: 15 to train on, 2 held out"},
      {SharedData("tinyshakespeare.txt"), 15685,
       "1,115,394 bytes, windows of 64: 15,685 to train on, 1,743 held out"}};
  const Graph graph = ModelOf("tiny-gpt?vocab=128", 16);
  for (const Text& text : texts) {
    if (!std::filesystem::exists(text.path)) continue;
    const auto data = Opened("text:" + text.path, graph);
    ASSERT_NE(data, nullptr);
    EXPECT_THAT(data->Describe(), HasSubstr(text.says));
    const std::string contents = ReadFile(text.path).value();
    const int64_t window = SampleAt(12345, text.windows, 1);
    EXPECT_EQ(AsText(data->Train(InputOf(graph, "targets"), 12345, 1)),
              contents.substr(static_cast<size_t>(window * 64 + 1), 64));
  }
}

}  // namespace
}  // namespace heddle
