#include "run/store/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <filesystem>
#include <random>

#include "base/file.h"
#include "base/json_field.h"
#include "run/store/stored_values.h"
#include "support/child_process.h"
#include "support/places.h"
#include "support/scratch_folder.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

CheckpointInfo InfoOf(int64_t step) {
  return {.step = step,
          .samples = 32 * step,
          .seed = 7,
          .model = "tiny-mlp",
          .model_hash = "4beb6ab83ffb9b85",
          .optimizer = "adam",
          .dtype = DType::kF32,
          .heddle_version = "0.1.0"};
}

StoredValues StateOf(float value, int64_t count = 6) {
  StoredValues values;
  const std::vector<float> numbers(static_cast<size_t>(count), value);
  values.Add<float>("fc0.w", DType::kF32, {count}, numbers);
  values.Add<float>("fc0.w.adam_m", DType::kF32, {count}, numbers);
  return values;
}

// A run with these steps, whose weights are the number of the step.
class CheckpointTest : public testing::Test {
 protected:
  std::string Save(int64_t step) { return Save(step, static_cast<float>(step)); }
  std::string Save(int64_t step, float value) {
    const StoredValues state = StateOf(value);
    const auto saved = SaveCheckpoint(CheckpointsOf(run()), InfoOf(step), state.tensors());
    EXPECT_TRUE(saved.ok()) << ErrorOf(saved);
    return saved.ok() ? saved.value() : "";
  }
  std::string run() const { return scratch_ / "run"; }
  std::vector<std::string> Names() const { return scratch_.Names("run/checkpoints"); }
  static float WeightOf(const std::string& path) {
    const auto loaded = LoadCheckpoint(path);
    EXPECT_TRUE(loaded.ok()) << ErrorOf(loaded);
    return loaded.ok() ? ValuesOf<float>(*loaded.value().tensors.Find("fc0.w"))[0] : -1;
  }

  ScratchFolder scratch_;
};

TEST_F(CheckpointTest, LoadsWhatWasSaved) {
  const std::string path = Save(100);
  EXPECT_EQ(path, run() + "/checkpoints/step-00000100");
  EXPECT_THAT(scratch_.Names("run/checkpoints/step-00000100"),
              ElementsAre("checkpoint.json", "tensors.safetensors"));
  const auto loaded = LoadCheckpoint(path);
  ASSERT_TRUE(loaded.ok()) << ErrorOf(loaded);
  CheckpointInfo expected = InfoOf(100);
  expected.tensors_bytes = loaded.value().info.tensors_bytes;
  expected.tensors_hash = loaded.value().info.tensors_hash;
  EXPECT_EQ(loaded.value().info, expected);
  EXPECT_GT(expected.tensors_bytes, 48);
  EXPECT_EQ(expected.tensors_hash.size(), 16U);
  EXPECT_EQ(loaded.value().tensors.metadata().at("step"), "100");
  EXPECT_THAT(ValuesOf<float>(*loaded.value().tensors.Find("fc0.w.adam_m")),
              ElementsAre(100, 100, 100, 100, 100, 100));
}

// The checkpoint that docs/run-directory.md shows, and the header of its tensors.
TEST_F(CheckpointTest, TheExampleOfTheDocumentation) {
  StoredValues state;
  for (const char* name : {"fc0.w", "fc0.w.adam_m", "fc0.w.adam_v"}) {
    state.Add<float>(name, DType::kF32, {2, 3}, {1, 2, 3, 4, 5, 6});
  }
  const std::string path = SaveCheckpoint(run(), InfoOf(100), state.tensors()).value();
  const std::string page = ReadFile(SourceDir() + "/docs/run-directory.md").value();
  const auto block_with = [&](const std::string& opening, const std::string& key) {
    const size_t begin = page.rfind(opening, page.find(key)) + opening.size();
    return Json::parse(page.substr(begin, page.find("```", begin) - begin), nullptr,
                       /*allow_exceptions=*/false, /*ignore_comments=*/true);
  };
  EXPECT_EQ(block_with("```js\n", "\"tensors_hash\""),
            Json::parse(ReadFile(path + "/checkpoint.json").value()));
  const std::string tensors = ReadFile(path + "/tensors.safetensors").value();
  EXPECT_EQ(block_with("```json\n", "\"__metadata__\""),
            Json::parse(tensors.substr(8, tensors.size() - 8 - 72)));
}

TEST_F(CheckpointTest, NoTensorsAndStepZero) {
  const auto saved = SaveCheckpoint(scratch_ / "c", InfoOf(0), {});
  ASSERT_TRUE(saved.ok()) << ErrorOf(saved);
  EXPECT_TRUE(LoadCheckpoint(saved.value() + "/").value().tensors.tensors().empty());
}

TEST_F(CheckpointTest, TheLatestIsTheLargestStep) {
  EXPECT_THAT(ErrorOf(LatestCheckpoint(run())), HasSubstr("checkpoints: there is no checkpoint"));
  for (const int64_t step : {20, 100, 3, 123456789}) Save(step);
  EXPECT_EQ(LatestCheckpoint(run()).value(), run() + "/checkpoints/step-123456789");
  fs::create_directory(run() + "/checkpoints/step-x");
  fs::create_directory(run() + "/checkpoints/step-");
  ASSERT_TRUE(WriteFile(run() + "/checkpoints/step-99999999999", "a file").ok());
  EXPECT_EQ(ListCheckpoints(run()).size(), 4U);
  EXPECT_EQ(LatestCheckpoint(run() + "/").value(), run() + "//checkpoints/step-123456789");
}

TEST_F(CheckpointTest, PruningKeepsTheLast) {
  EXPECT_TRUE(PruneCheckpoints(run(), 1).ok());  // nothing there
  for (const int64_t step : {1, 2, 3, 10, 11}) Save(step);
  EXPECT_TRUE(PruneCheckpoints(run(), 5).ok());
  EXPECT_EQ(Names().size(), 5U);
  EXPECT_TRUE(PruneCheckpoints(run(), 2).ok());
  EXPECT_THAT(Names(), ElementsAre("step-00000010", "step-00000011"));
  EXPECT_THAT(ErrorOf(PruneCheckpoints(run(), 0)), HasSubstr("keep at least 1"));
  EXPECT_EQ(Names().size(), 2U);
}

TEST_F(CheckpointTest, SavingAStepAgainReplacesIt) {
  const std::string path = Save(5, 1.0F);
  const Checkpoint before = LoadCheckpoint(path).value();
  EXPECT_EQ(Save(5, 2.0F), path);
  EXPECT_EQ(WeightOf(path), 2.0F);
  EXPECT_THAT(Names(), ElementsAre("step-00000005"));
  // Who has the old one loaded still has it.
  EXPECT_EQ(ValuesOf<float>(*before.tensors.Find("fc0.w"))[0], 1.0F);
}

TEST_F(CheckpointTest, ReplacingWhereDirectoriesCannotBeExchanged) {
  const std::string path = Save(5, 1.0F);
  const std::string said = InChild([&]() -> std::string {
    if (!ForbidExchange()) return "not permitted";
    return Save(5, 2.0F) == path ? "saved" : "not saved";
  });
  if (said == "not permitted") GTEST_SKIP() << "system calls cannot be filtered here";
  EXPECT_EQ(said, "saved");
  EXPECT_EQ(WeightOf(path), 2.0F);
  EXPECT_THAT(Names(), ElementsAre("step-00000005"));
}

TEST_F(CheckpointTest, WhatDeadWritersLeftIsRemoved) {
  Save(1);
  fs::create_directories(run() + "/checkpoints/.tmp-step-00000002");
  ASSERT_TRUE(WriteFile(run() + "/checkpoints/.tmp-step-00000002/tensors.safetensors", "x").ok());
  fs::create_directories(run() + "/checkpoints/.old-step-00000001");  // its successor is there
  ASSERT_TRUE(WriteFile(run() + "/checkpoints/notes.txt", "mine").ok());
  Save(3);
  EXPECT_THAT(Names(), ElementsAre("notes.txt", "step-00000001", "step-00000003"));
}

// Where directories cannot be exchanged, the old one is moved aside first; a writer that died just
// then has lost nothing.
TEST_F(CheckpointTest, AReplacedOneWithoutSuccessorComesBack) {
  fs::rename(Save(1), run() + "/checkpoints/.old-step-00000001");
  Save(2);
  EXPECT_THAT(Names(), ElementsAre("step-00000001", "step-00000002"));
  EXPECT_EQ(WeightOf(run() + "/checkpoints/step-00000001"), 1.0F);
}

TEST_F(CheckpointTest, LaterOnesAreSetAside) {
  for (const int64_t step : {1, 2, 3}) Save(step);
  fs::create_directories(run() + "/checkpoints/dropped-step-00000003/of-an-earlier-time");
  ASSERT_TRUE(DropCheckpointsAfter(run(), 1).ok());
  EXPECT_THAT(Names(),
              ElementsAre("dropped-step-00000002", "dropped-step-00000003", "step-00000001"));
  EXPECT_EQ(WeightOf(run() + "/checkpoints/dropped-step-00000003"), 3.0F);
  EXPECT_EQ(ListCheckpoints(run()).size(), 1U);
  ASSERT_TRUE(DropCheckpointsAfter(run(), 1).ok());
  ASSERT_TRUE(DropCheckpointsAfter(scratch_ / "none", 1).ok());
}

TEST_F(CheckpointTest, DamageIsFoundAndTheOthersAreNamed) {
  Save(1);
  Save(2);
  const std::string path = Save(3);
  const std::string tensors = path + "/tensors.safetensors";
  const std::string info = path + "/checkpoint.json";
  const std::string whole = ReadFile(tensors).value();
  const auto refusal = [&] { return ErrorOf(LoadCheckpoint(path)); };
  const auto others =
      HasSubstr("use an earlier checkpoint: " + run() + "/checkpoints/step-00000002, " + run() +
                "/checkpoints/step-00000001");

  ASSERT_TRUE(WriteFile(tensors, whole.substr(0, whole.size() - 5)).ok());
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("tensors.safetensors: has "), HasSubstr("truncated"), others));
  ASSERT_TRUE(WriteFile(tensors, whole + "more").ok());
  EXPECT_THAT(refusal(), AllOf(HasSubstr("not the file that was written"), others));
  for (size_t at = 0; at < whole.size(); ++at) {  // any bit of any byte, header or data
    std::string altered = whole;
    altered[at] = static_cast<char>(altered[at] ^ (1 << (at % 8)));
    fs::remove(tensors);
    ASSERT_TRUE(WriteFile(tensors, altered).ok());
    EXPECT_THAT(refusal(), AllOf(HasSubstr("tensors.safetensors"), others)) << at;
  }
  std::string altered = whole;
  altered.back() = 'x';
  ASSERT_TRUE(WriteFile(tensors, altered).ok());
  EXPECT_THAT(refusal(), HasSubstr("it was altered"));
  fs::remove(tensors);
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("tensors.safetensors: cannot open: No such file"), others));
  ASSERT_TRUE(WriteFile(tensors, whole).ok());
  EXPECT_EQ(refusal(), "");

  const std::string text = ReadFile(info).value();
  ASSERT_TRUE(WriteFile(info, text.substr(0, text.size() / 2)).ok());
  EXPECT_THAT(refusal(), AllOf(HasSubstr("checkpoint.json: not valid JSON"), others));
  fs::remove(info);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("checkpoint.json: cannot open"), others));
  EXPECT_EQ(WeightOf(run() + "/checkpoints/step-00000002"), 2.0F);
}

TEST_F(CheckpointTest, AnEditedDescriptionIsFoundAndNamed) {
  const std::string path = Save(100);
  const std::string file = path + "/checkpoint.json";
  const Json whole = ParseJson(ReadFile(file).value(), file).value();
  const std::vector<std::pair<const char*, Json>> edits = {
      {"step", 140},         {"samples", 3201},          {"seed", 8},
      {"model", "tiny-gpt"}, {"model_hash", "4beb6a"},   {"optimizer", "sgd"},
      {"dtype", "f64"},      {"heddle_version", "9.9.9"}};
  for (const auto& [key, value] : edits) {
    Json edited = whole;
    edited[key] = value;
    ASSERT_TRUE(WriteFile(file, edited.dump()).ok());
    const auto loaded = LoadCheckpoint(path);
    ASSERT_FALSE(loaded.ok()) << key;
    EXPECT_THAT(ErrorOf(loaded), AllOf(HasSubstr(std::string("checkpoint.json: ") + key + " is "),
                                       HasSubstr("it was altered")));
  }
  for (const char* key : {"step", "samples"}) {
    Json edited = whole;
    edited[key] = INT64_MAX;
    ASSERT_TRUE(WriteFile(file, edited.dump()).ok());
    EXPECT_FALSE(LoadCheckpointInfo(path).ok()) << key;
  }
  ASSERT_TRUE(WriteFile(file, whole.dump()).ok());
  EXPECT_TRUE(LoadCheckpoint(path).ok());
}

TEST_F(CheckpointTest, PathsThatAreNotCheckpoints) {
  const std::string path = Save(1);
  EXPECT_THAT(ErrorOf(LoadCheckpoint(run())),
              HasSubstr("this is the directory of a run; its last checkpoint is " + path));
  EXPECT_THAT(ErrorOf(LoadCheckpoint(path + "/checkpoint.json")), HasSubstr("Not a directory"));
  EXPECT_THAT(ErrorOf(LoadCheckpoint(scratch_ / "nowhere/step-00000001")),
              HasSubstr("there is no other checkpoint beside it"));
  EXPECT_FALSE(LoadCheckpoint("").ok());
}

TEST_F(CheckpointTest, FieldsOfTheInfo) {
  const Json good = CheckpointInfoToJson(InfoOf(3));
  EXPECT_EQ(ParseCheckpointInfo(good.dump(), "f").value(), InfoOf(3));
  const auto with = [&](const char* key, const Json& value) {
    Json json = good;
    json[key] = value;
    return ErrorOf(ParseCheckpointInfo(json.dump(), "f"));
  };
  EXPECT_EQ(with("seed", UINT64_MAX), "");
  EXPECT_THAT(
      with("schema", "heddle.checkpoint/2"),
      HasSubstr("f: schema: found \"heddle.checkpoint/2\", expected \"heddle.checkpoint/1\""));
  EXPECT_THAT(with("step", -1), HasSubstr("f: step: -1 is out of range"));
  EXPECT_THAT(with("seed", -1), HasSubstr("f: seed: found -1"));
  EXPECT_THAT(with("dtype", "f8"), HasSubstr("f: dtype: \"f8\" is unknown"));
  EXPECT_THAT(with("stepp", 1), HasSubstr("unknown field \"stepp\""));
  for (const auto& [key, value] : good.items()) {
    Json json = good;
    json.erase(key);
    EXPECT_THAT(ErrorOf(ParseCheckpointInfo(json.dump(), "f")), HasSubstr(key + ": missing"));
    EXPECT_NE(with(key.c_str(), nullptr), "") << key;
  }
}

TEST_F(CheckpointTest, SavingWhereItCannotBe) {
  ASSERT_TRUE(WriteFile(scratch_ / "file", "x").ok());
  EXPECT_THAT(ErrorOf(SaveCheckpoint(scratch_ / "file", InfoOf(1), {})), HasSubstr("is a file"));
  EXPECT_THAT(ErrorOf(SaveCheckpoint(scratch_ / "file/below", InfoOf(1), {})),
              HasSubstr("is a file"));
  const StoredTensor wrong = {"w", DType::kF32, {3}, {}};
  EXPECT_THAT(ErrorOf(SaveCheckpoint(scratch_ / "c", InfoOf(1), std::span(&wrong, 1))),
              HasSubstr("c/step-00000001/tensors.safetensors: tensor \"w\""));
  EXPECT_TRUE(scratch_.Names("c").empty());
}

TEST_F(CheckpointTest, LinkedDirectories) {
  fs::create_directories(scratch_ / "big-disk");
  fs::create_directories(run());
  fs::create_directory_symlink(scratch_ / "big-disk", run() + "/checkpoints");
  EXPECT_EQ(WeightOf(Save(1)), 1.0F);
  EXPECT_THAT(scratch_.Names("big-disk"), ElementsAre("step-00000001"));
  // A link in the place of a checkpoint is replaced, and what it points to stays.
  fs::rename(scratch_ / "big-disk/step-00000001", scratch_ / "kept");
  fs::create_directory_symlink(scratch_ / "kept", scratch_ / "big-disk/step-00000001");
  EXPECT_EQ(WeightOf(Save(1, 5.0F)), 5.0F);
  EXPECT_EQ(WeightOf(scratch_ / "kept"), 1.0F);
}

TEST_F(CheckpointTest, AFullDiskKeepsTheOldOnes) {
  Save(1);
  const StoredValues large = StateOf(9, 10000);
  const auto save_large = [&](int64_t step) {
    return ErrorOf(SaveCheckpoint(CheckpointsOf(run()), InfoOf(step), large.tensors()));
  };
  for (const int64_t step : {1, 2}) {
    const std::string said = InChild([&] {
      LimitFileSize(16384);
      return save_large(step);
    });
    EXPECT_THAT(said, AllOf(HasSubstr("step-0000000" + std::to_string(step) + "/tensors"),
                            HasSubstr("cannot write: File too large; 80"), HasSubstr("wanted")));
    EXPECT_THAT(Names(), ElementsAre("step-00000001"));
  }
  EXPECT_EQ(WeightOf(run() + "/checkpoints/step-00000001"), 1.0F);

  const std::string said = InChild([&]() -> std::string {
    if (!MountTinyDisk(run(), "64k")) return "not permitted";
    if (Save(1).empty()) return "cannot save at all";
    std::string error = save_large(2);
    return error + (WeightOf(LatestCheckpoint(run()).value()) == 1.0F ? " kept" : " lost");
  });
  if (said == "not permitted") GTEST_SKIP() << "mounting a tmpfs is not permitted here";
  EXPECT_THAT(said, AllOf(HasSubstr("No space left on device"), HasSubstr(" kept")));
}

TEST_F(CheckpointTest, WritersTakeTurns) {
  Save(1);
  const int fd = ::open(CheckpointsOf(run()).c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::flock(fd, LOCK_EX), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(fd);
    Save(2);
    ::_exit(0);
  }
  ::usleep(100000);
  EXPECT_THAT(Names(), ElementsAre("step-00000001"));
  ::close(fd);
  ::waitpid(child, nullptr, 0);
  EXPECT_THAT(Names(), ElementsAre("step-00000001", "step-00000002"));
}

// A writer that saves, replaces and prunes is killed at any moment, until one was at work: whatever
// is called step-* loads.
TEST_F(CheckpointTest, KilledWritersLeaveOnlyWholeCheckpoints) {
  constexpr int kKills = 30;
  std::mt19937 random(1);
  std::uniform_int_distribution<useconds_t> moment(0, 30000);
  size_t loaded = 0;
  size_t left_behind = 0;
  for (int kill = 0; kill < kKills || loaded == 0 || left_behind == 0; ++kill) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(ends[1]);  // says that the work begins
      for (int64_t round = 0;; ++round) {
        const int64_t step = 100 * kill + round % 3;
        const StoredValues state = StateOf(static_cast<float>(step), 20000);
        (void)SaveCheckpoint(CheckpointsOf(run()), InfoOf(step), state.tensors());
        (void)PruneCheckpoints(run(), 3);
      }
    }
    ::close(ends[1]);
    char nothing = 0;
    ASSERT_EQ(::read(ends[0], &nothing, 1), 0);
    ::close(ends[0]);
    ::usleep(moment(random));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    if (!fs::exists(CheckpointsOf(run()))) continue;
    for (const std::string& path : ListCheckpoints(run())) {
      const auto checkpoint = LoadCheckpoint(path);
      ASSERT_TRUE(checkpoint.ok()) << "after kill " << kill << ": " << ErrorOf(checkpoint);
      EXPECT_EQ(ValuesOf<float>(*checkpoint.value().tensors.Find("fc0.w"))[0],
                static_cast<float>(checkpoint.value().info.step));
      ++loaded;
    }
    for (const std::string& name : Names()) left_behind += name.starts_with(".") ? 1 : 0;
  }
  Save(1000000);
  for (const std::string& name : Names()) EXPECT_THAT(name, Not(testing::StartsWith(".")));
}

}  // namespace
}  // namespace heddle
